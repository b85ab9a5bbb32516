"""The task that data came from, by the settings that are stored with it and with its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmtk.envs import ResolvedTask, resolve
from wmtk.errors import UsageError


def task_of(
    settings: Mapping[str, Any], task: str | None = None, changes: Mapping[str, Any] | None = None
) -> ResolvedTask:
    """The task of stored settings, with some options changed, or another one.

    Another game of Atari is played with the stored options too, anything else with its own.
    """
    name = task or settings.get("task")
    if not name:
        raise UsageError(
            "The data does not say which task it is from.", "Name the task: --task atari_pong."
        )
    plain = resolve(str(name))
    same = plain.kind == "atari" or plain.env_id == settings.get("env_id")
    if not same or plain.kind != settings.get("kind"):
        return resolve(str(name), **(changes or {}))
    stored = {key: settings[key] for key in plain.kwargs if key in settings}
    return resolve(str(name), **{**stored, **(changes or {})})
