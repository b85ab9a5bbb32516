"""`wmtk viz`: evaluation of world models in numbers, images and a live page."""

from __future__ import annotations

import typer

from wmtk.cli.viz import evaluation_commands, image_commands, returns_command, serve_command

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

app.command("metrics")(evaluation_commands.metrics)
app.command("openloop")(image_commands.openloop)
app.command("recon")(image_commands.recon)
app.command("dream")(image_commands.dream)
app.command("returns")(returns_command.returns)
app.command("codes")(image_commands.codes)
app.command("compare")(evaluation_commands.compare)
app.command("intervene")(image_commands.intervene)
app.command("report")(evaluation_commands.report)
app.command("serve")(serve_command.serve)
