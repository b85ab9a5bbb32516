"""`wmtk runs`: the run directories under a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit, human_count, note, short_path
from wmtk.cli.common.options import Json
from wmtk.errors import UsageError
from wmtk.escaping import one_line

if TYPE_CHECKING:
    from rich.console import Group

    from wmtk.runs.listing import RunSummary

STYLES = {"running": "green", "stopped": "yellow", "begun": "yellow", "damaged": "red"}


def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Searched with all folders below it.")
    ] = Path(),
    json: Json = False,
) -> None:
    """List the runs under a folder.

    Each row shows the kind, state and progress of a run with its last and best score. The score is
    the mean return of an evaluation or, for a world model, the validation loss. The best score is
    that of the checkpoint `best`: the lowest loss, or the mean return of a second set of episodes,
    which was not used to choose it. The lines below the table compare the last evaluation, or the
    data of a world model, with random play, the data and the reward threshold of the task. A
    run that is stopped continues with --resume.

    \b
    Examples:
      wmtk runs runs
      wmtk runs --json | jq '.[] | select(.state == "stopped") | .path'
    """
    from wmtk.runs.listing import list_runs

    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.", "Pass the folder that contains the runs.")
    summaries = list_runs(folder)
    if not summaries and not json:
        note(f"There are no runs under {folder}.")
        return
    emit(summaries, json=json, render=_render)
    for summary in summaries:
        if summary.problem:
            note(f"{summary.path} is damaged: {summary.problem}")


def _render(summaries: list[RunSummary]) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("run", "kind", "state", "task"):
        table.add_column(name, overflow="fold")
    for name in ("updates", "steps", "last", "best"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in summaries:
        table.add_row(
            one_line(short_path(run.path)),
            one_line(run.kind),
            Text(run.state, style=STYLES.get(run.state, "")),
            one_line(run.task),
            human_count(run.updates),
            "" if run.steps is None else human_count(run.steps),
            "" if run.last is None else f"{run.measure} {run.last:.4g}",
            "" if run.best is None else f"{run.best:.4g}",
        )
    lines = [Text(text) for run in summaries if (text := _comparison(run))]
    return Group(table, *([Text(), *lines] if lines else []))


def _comparison(run: RunSummary) -> str:
    """A line that compares the return of a run with its baselines."""
    if run.comparison is None or not run.comparison["references"]:
        return ""
    name = one_line(short_path(run.path))
    return f"{name}: {run.comparison['sentence']}"
