"""The environment named in a file of another format, as settings of `wmtk collect`.

Only the id and plain arguments are used. The id is looked up among the environments of installed
packages; no module named in a file is imported, and no environment is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from wmtk.datasets.schema import Schema
from wmtk.envs import task_of
from wmtk.errors import WmtkError

NAMES = ("env_id", "env_name", "env", "task")  # attributes that may contain an id


def environment_of(
    env_id: str, kwargs: Mapping[str, Any], schema: Schema, time_limit: int | None = None
) -> dict[str, Any]:
    """The `env` of a dataset from an id and keyword arguments; unknown ids are kept unresolved."""
    unknown = {"id": env_id, "kwargs": dict(kwargs)}
    arguments = {key: value for key, value in kwargs.items() if key != "render_mode"}
    try:
        if task_of({"task": env_id}).kind != "gymnasium":  # wmtk's Atari games have other rules
            return unknown
        options: dict[str, Any] = {"kwargs": arguments}
        if time_limit != gym.spec(env_id).max_episode_steps:
            options["time_limit"] = time_limit
        if any(len(spec.shape) == 3 for spec in schema.obs.values()):
            options["size"] = 0  # images were recorded without resizing
        settings = {"task": env_id, "kind": "gymnasium", "env_id": env_id, **options}
        resolved = task_of(settings).settings
    except WmtkError:
        return unknown
    # The installed versions are not those of the recording.
    return {key: value for key, value in resolved.items() if key != "versions"}


def named_in(attributes: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The `env` of a dataset from file attributes, if one of them is the id of an environment."""
    for name in NAMES:
        env_id = attributes.get(name)
        if isinstance(env_id, str) and "task" in (env := environment_of(env_id, {}, schema)):
            return env
    return {}
