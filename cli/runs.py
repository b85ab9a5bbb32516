"""`wmtk runs`: the runs under a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import console
from wmtk.cli.common.console import human_count
from wmtk.cli.common.run_options import say
from wmtk.errors import UsageError
from wmtk.escaping import one_line

if TYPE_CHECKING:
    from rich.console import Group

    from wmtk.runs.listing import RunSummary

STYLES = {"running": "green", "stopped": "yellow", "begun": "yellow", "damaged": "red"}


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, in all folders below.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List the runs under a folder: what each is, how far it is, and its best score.

    The last score is the mean return of the last test or, for a world model, the last held-out
    loss; the best one is that of the checkpoint `best`, where there is one: the lowest loss, or the
    mean return of a second set of episodes, which had no part in choosing it. The lines below the
    table compare the last test, or the data of a world model, with random play, with the data, and
    with the reward threshold of the task. A run that is not running and not finished goes on with
    --resume.

    \b
    Examples:
      wmtk runs runs
      wmtk runs --json | jq '.[] | select(.state == "stopped") | .path'
    """
    from wmtk.runs.listing import list_runs

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", "Name the folder that the runs are in.")
    found = list_runs(folder)
    if not found and not json:
        say(f"There are no runs under {folder}.")
        return
    console.emit(found, json=json, render=_render)
    for line in found:
        if line.problem:
            say(f"{line.path} is damaged: {line.problem}")


def _render(found: list[RunSummary]) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("run", "kind", "state", "task"):
        table.add_column(name, overflow="fold")
    for name in ("updates", "steps", "last", "best"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in found:
        table.add_row(
            one_line(console.short_path(line.path)),
            one_line(line.kind),
            Text(line.state, style=STYLES.get(line.state, "")),
            one_line(line.task),
            human_count(line.updates),
            "" if line.steps is None else human_count(line.steps),
            "" if line.last is None else f"{line.measure} {line.last:.4g}",
            "" if line.best is None else f"{line.best:.4g}",
        )
    lines = [Text(text) for line in found if (text := _compared(line))]
    return Group(table, *([Text(), *lines] if lines else []))


def _compared(line: RunSummary) -> str:
    """A line with the baselines, and whether anything was learned."""
    if line.comparison is None or not line.comparison["references"]:
        return ""
    name = one_line(console.short_path(line.path))
    return f"{name}: {line.comparison['sentence']}"
