"""What the commands share that play in environments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmtk.cli.common import console
from wmtk.escaping import indented, one_line

if TYPE_CHECKING:
    from wmtk.envs import ResolvedTask

TrustEnv = Annotated[
    list[str] | None,
    typer.Option(
        help="Let a run or dataset name this environment, whose code then runs.",
        metavar="MODULE:ID",
        show_default=False,
    ),
]


ObsKeys = Annotated[
    str | None,
    typer.Option(
        help="Observation keys to use, such as image,state; or to leave out: -mission.",
        show_default="all",
    ),
]


def task_options(
    texts: list[str] | None, obs_keys: str | None, option: str = "--set"
) -> dict[str, Any]:
    """The options of a task from those of a command."""
    chosen = {} if obs_keys is None else {"obs_keys": obs_keys}
    return {**console.pairs(texts or [], option), **chosen}


def echo(task: ResolvedTask, seed: int) -> None:
    """Say what the task's name was taken to mean."""
    shown = {k: v for k, v in task.settings.items() if k not in {"task", "kind", "versions"}}
    facts = ", ".join(f"{name} {value}" for name, value in shown.items() if value is not None)
    console.err.print(one_line(f"{task.task}: {facts}; seed {seed}"), soft_wrap=True)


def say_limits(task: ResolvedTask, option: str, steps: int | None = None, envs: int = 1) -> None:
    """Say how many more steps than `steps` may be played, and that no episode goes on for ever."""
    from wmtk.collecting import MAX_EPISODE_STEPS, max_steps

    if task.time_limit is None:
        when = f"after {MAX_EPISODE_STEPS:,} steps{' or once --steps are played' if steps else ''}"
        text = f"{task.task} has no time limit: an episode that still runs {when} is cut and counts"
        warn(f"{text} as truncated. {option} time_limit=1000 sets a limit.")
    elif steps:
        more = max_steps(task, steps, envs) - steps
        text = f"Episodes are finished: up to {more:,} steps more than {steps:,} are played."
        console.err.print(text, soft_wrap=True)


def say_new_folders(out: Path) -> None:
    """Name the folders above `out` that will be made: one of them may be a slip of the pen."""
    missing = [folder for folder in out.absolute().parents if not folder.exists()]
    if missing:
        console.err.print(one_line(f"New folder: {missing[-1]}"), soft_wrap=True)


def warn(text: str) -> None:
    """An environment's own words: not markup, whatever brackets they hold, and not wrapped."""
    console.err.print(f"warning: {indented(text)}", style="yellow", soft_wrap=True)


def interrupt(*_: object) -> None:
    """What SIGTERM does, a job scheduler's Ctrl-C."""
    raise KeyboardInterrupt
