"""The environment that a foreign file names, as `wmtk collect` would describe it.

Only the id and plain arguments are used. The id is looked up among the environments of installed
packages; nothing that a file says is imported, and no environment is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from wmtk.datasets.schema import Schema
from wmtk.envs import task_of
from wmtk.errors import WmtkError

NAMES = ("env_id", "env_name", "env", "task")  # of attributes that may hold an id


def environment_of(
    env_id: str, kwargs: Mapping[str, Any], schema: Schema, time_limit: int | None = None
) -> dict[str, Any]:
    """The `env` of a dataset from an id and keyword arguments; unknown ids are kept as they are."""
    unknown = {"id": env_id, "kwargs": dict(kwargs)}
    arguments = {key: value for key, value in kwargs.items() if key != "render_mode"}
    try:
        if task_of({"task": env_id}).kind != "gymnasium":  # wmtk's Atari games have other rules
            return unknown
        options: dict[str, Any] = {"kwargs": arguments}
        if time_limit != gym.spec(env_id).max_episode_steps:
            options["time_limit"] = time_limit
        if any(len(spec.shape) == 3 for spec in schema.obs.values()):
            options["size"] = 0  # pictures were recorded as they are
        settings = {"task": env_id, "kind": "gymnasium", "env_id": env_id, **options}
        found = task_of(settings).settings
    except WmtkError:
        return unknown
    return {key: value for key, value in found.items() if key != "versions"}  # of here, not of then


def named_in(attributes: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The same from the attributes of a file, if one of them is the id of an environment."""
    for name in NAMES:
        env_id = attributes.get(name)
        if isinstance(env_id, str) and "task" in (found := environment_of(env_id, {}, schema)):
            return found
    return {}
