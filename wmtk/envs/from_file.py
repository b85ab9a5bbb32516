"""The task that data came from, by the settings that are recorded with it and with its runs.

A file may come from a stranger, and making an environment runs its code. Names from a file are
therefore limited to environments of installed packages, and are checked here, before anything is
imported. See docs/security.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from wmtk.envs import gymnasium_env
from wmtk.envs.task import ResolvedTask, identify, resolve
from wmtk.errors import TaskError, UntrustedEnvError, UsageError

NAME = re.compile(r"[\w.]+:[\w./-]+|[\w./-]+", re.ASCII)  # module:Id or an id
# A path, a URL, module:name, or with a letter after a dot a file or what some packages import.
REFERENCE = re.compile(r"[:/\\]|^[.~]|\w\.[^\W\d]")


def task_of(
    settings: Mapping[str, Any],
    task: str | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    trust_env: str | Collection[str] = (),
) -> ResolvedTask:
    """The task of recorded settings, with some options changed, or another one.

    Another game of Atari is played with the recorded options too, anything else with its own.

    `settings` may be anything: environments outside of installed packages raise
    `UntrustedEnvError` unless `trust_env` names them exactly, as they are recorded. `task` and
    `changes` are the caller's own words; naming a `module:Id` as `task` trusts it.
    """
    trusted = {trust_env} if isinstance(trust_env, str) else set(trust_env)
    changes = changes or {}
    if task:
        plain = resolve(task)
        if plain.kind == "module":
            trusted.add(task)
    else:
        if not settings.get("task") and settings.get("id"):
            raise UsageError(
                f"The data is of {settings['id']!r}, which cannot be made from its description.",
                "Name the task to play: --task CartPole-v1.",
            )
        plain = _recorded(settings.get("task"), trusted)
    same = plain.kind == "atari" or plain.env_id == settings.get("env_id")
    if plain.kind == "module":  # the same id of another module is another environment
        same = plain.task == settings.get("task")
    if not same or plain.kind != settings.get("kind"):
        return identify(plain.task, **changes)
    stored = {key: settings[key] for key in plain.kwargs if key in settings}
    found = identify(plain.task, **{**stored, **changes})
    if plain.task not in trusted and "kwargs" not in changes:
        _require_harmless(found.kwargs.get("kwargs", {}), plain.task)
    return found


def _recorded(name: object, trusted: Collection[str]) -> ResolvedTask:
    """The task of a name in a file; nothing is imported but installed packages."""
    if not name:
        raise UsageError(
            "The data does not say which task it is from.", "Name the task: --task atari_pong."
        )
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise TaskError(f"{name!r}, which the file records as its task, is not the name of one.")
    task = identify(name)
    known = task.kind in {"atari", "dmc"}
    if task.kind == "gymnasium":
        known = gymnasium_env.from_installed_package(name)
    elif task.kind == "entry_point":
        known = gymnasium_env.named_by_installed_package(name)
    if not known and name not in trusted:
        raise _untrusted(f"The file names the environment {name}, whose code would run.", name)
    return task


def _require_harmless(value: Any, task: str) -> None:
    """Refuse arguments that make an environment open a file or import a module."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _require_harmless([key, item], task)
    elif isinstance(value, list | tuple):
        for item in value:
            _require_harmless(item, task)
    elif isinstance(value, str) and REFERENCE.search(value):
        message = f"The file gives the environment {task} the argument {value!r}, a path or module."
        raise _untrusted(message, task)


def _untrusted(message: str, task: str) -> UntrustedEnvError:
    return UntrustedEnvError(
        message,
        f"If you trust it, allow it: --trust-env {shlex.quote(task)}, or trust_env={task!r} in "
        "Python.",
    )
