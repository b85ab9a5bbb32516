"""`wmtk viz`: whether a world model is right, in numbers and pictures."""

from __future__ import annotations

import typer

from wmtk.cli.viz import (
    codes_command,
    compare_command,
    dream_command,
    image_commands,
    intervene_command,
    metrics_command,
    report_command,
    returns_command,
    serve_command,
)

app = typer.Typer(
    no_args_is_help=True,
    help="""Evaluate and visualize world models.

    \b
    Examples:
      wmtk viz metrics runs/catch catch.zarr
      wmtk viz openloop runs/catch catch.zarr openloop.mp4
      wmtk viz report runs/catch catch.zarr
    """,
)

app.command("metrics")(metrics_command.metrics)
app.command("openloop")(image_commands.openloop)
app.command("recon")(image_commands.recon)
app.command("dream")(dream_command.dream)
app.command("returns")(returns_command.returns)
app.command("codes")(codes_command.codes)
app.command("compare")(compare_command.compare)
app.command("intervene")(intervene_command.intervene)
app.command("report")(report_command.report)
app.command("serve")(serve_command.serve)
