"""`wmtk runs`: the runs under a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli import console
from wmtk.cli.console import human_count
from wmtk.cli.training import say
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from wmtk.training.listing import RunLine

STYLES = {"running": "green", "stopped": "yellow", "begun": "yellow", "damaged": "red"}


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look, in all folders below.")] = Path(),
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List the runs under a folder: what each is, how far it is, and its best score.

    A score is the best mean return in the tests of an online run, or the lowest held-out loss of
    a world model. A run that is not running and not finished goes on with --resume.

    \b
    Examples:
      wmtk runs runs
      wmtk runs --json | jq '.[] | select(.state == "stopped") | .path'
    """
    from wmtk.training.listing import runs_under

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", "Name the folder that the runs are in.")
    found = runs_under(folder)
    if not found and not json:
        say(f"There are no runs under {folder}.")
        return
    console.emit(found, json=json, render=_render)


def _render(found: list[RunLine]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("run", "kind", "state", "task"):
        table.add_column(name, overflow="fold")
    for name in ("updates", "steps", "best"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in found:
        table.add_row(
            str(line.path),
            line.kind,
            Text(line.state, style=STYLES.get(line.state, "")),
            line.task,
            human_count(line.updates),
            "" if line.steps is None else human_count(line.steps),
            "" if line.best is None else f"{line.measure} {line.best:.4g}",
        )
    return table
