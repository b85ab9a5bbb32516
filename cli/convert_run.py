"""`wmtk convert`: run directories of earlier versions under the present names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmtk.cli.common.console import note, warn
from wmtk.escaping import one_line


def convert_run(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Run directories.", show_default=False)
    ],
) -> None:
    """Convert run directories of earlier versions, in place.

    Settings, tensors and metrics get their present names; numbers stay as they are. An interrupted
    conversion continues when the command is repeated. A run of the present version stays as it is.

    \b
    Example:
      wmtk convert runs/pong runs/pong-policy
    """
    from wmtk.runs.conversion import convert_run as convert

    for run in runs:
        converted = convert(run, warn)
        text = "converted" if converted else "has the present format"
        note(one_line(f"{run}: {text}"))
