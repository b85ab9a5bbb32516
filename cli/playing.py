"""What the commands share that play in environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmtk.cli import console

if TYPE_CHECKING:
    from wmtk.envs import ResolvedTask


def echo(task: ResolvedTask, seed: int) -> None:
    """Say what the task's name was taken to mean."""
    shown = {k: v for k, v in task.settings.items() if k not in {"task", "kind", "versions"}}
    facts = ", ".join(f"{name} {value}" for name, value in shown.items() if value is not None)
    console.err.print(f"{task.task}: {facts}; seed {seed}", highlight=False, soft_wrap=True)


def warn(text: str) -> None:
    """An environment's own words: not markup, whatever brackets they hold, and not wrapped."""
    console.err.print(
        f"warning: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True
    )


def interrupt(*_: object) -> None:
    """What SIGTERM does, a job scheduler's Ctrl-C."""
    raise KeyboardInterrupt
