"""The task of a dataset or run, from its recorded settings.

Files may be untrusted, and building an environment runs its code. Names from files are therefore
limited to environments of installed packages, and checked before any import. See docs/security.md.
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
# A path, a URL or module:name; with a letter after a dot, a file or a module.
REFERENCE = re.compile(r"[:/\\]|^[.~]|\w\.[^\W\d]")


def task_of(
    settings: Mapping[str, Any],
    task: str | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    trust_env: str | Collection[str] = (),
) -> ResolvedTask:
    """The task of recorded settings, or `task`, with the options `changes`.

    The recorded options also apply if `task` is another Atari game; other tasks have their default
    options.

    `settings` are untrusted: environments outside of installed packages raise `UntrustedEnvError`
    unless `trust_env` is their exact recorded name. `task` and `changes` are trusted, including
    a `module:Id` as `task`.
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
                f"The data was recorded in {settings['id']!r}, an environment without a task name.",
                "Give the task, such as task='CartPole-v1'.",
            )
        plain = _recorded(settings.get("task"), trusted)
    same = plain.kind == "atari" or plain.env_id == settings.get("env_id")
    if plain.kind == "module":  # the same id of another module is another environment
        same = plain.task == settings.get("task")
    if not same or plain.kind != settings.get("kind"):
        return identify(plain.task, **changes)
    stored = {key: settings[key] for key in plain.kwargs if key in settings}
    resolved = identify(plain.task, **{**stored, **changes})
    if plain.task not in trusted and "kwargs" not in changes:
        _require_harmless(resolved.kwargs.get("kwargs", {}), plain.task)
    return resolved


def _recorded(name: object, trusted: Collection[str]) -> ResolvedTask:
    """The task of a name in a file; only installed packages are imported."""
    if not name:
        raise UsageError(
            "The data has no recorded task.", "Give the task, such as task='atari_pong'."
        )
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise TaskError(f"{name!r}, the task recorded in the file, is not a name of a task.")
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
    """Raise for arguments that may make an environment open a file or import a module."""
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
