"""The task of a command: its options, and messages about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wmtk.cli.common.console import human_count, note, warn
from wmtk.cli.common.options import parse_pairs
from wmtk.escaping import one_line

if TYPE_CHECKING:
    from wmtk.envs import ResolvedTask


def task_options(texts: list[str] | None, obs_keys: str | None) -> dict[str, Any]:
    """The options of a task, from `--env-set` and `--obs-keys`."""
    options: dict[str, Any] = {**parse_pairs(texts or [], "--env-set")}
    return options if obs_keys is None else options | {"obs_keys": obs_keys}


def echo(task: ResolvedTask, seed: int) -> None:
    """Print the resolved settings of a task."""
    settings = {k: v for k, v in task.settings.items() if k not in {"task", "kind", "versions"}}
    facts = ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    note(one_line(f"{task.task}: {facts}; seed {seed}"))


def note_limits(task: ResolvedTask, steps: int | None = None, envs: int = 1) -> None:
    """Print by how much `steps` may be exceeded, or a warning if episodes have no time limit."""
    from wmtk.collecting import MAX_EPISODE_STEPS, max_steps

    if task.time_limit is None:
        end = f"after {MAX_EPISODE_STEPS:,} steps{' or at the end of --steps' if steps else ''}"
        warn(
            f"{task.task} has no time limit: an episode that is still running {end} is stored as "
            "truncated. --env-set time_limit=1000 sets a limit."
        )
    elif steps:
        more = max_steps(task, steps, envs) - steps
        note(f"Episodes are completed: up to {human_count(more, 'step')} beyond {steps:,}.")
