"""`wmtk viz`: whether a world model is right, in numbers and pictures."""

from __future__ import annotations

import typer

from wmtk.cli import (
    viz_codes,
    viz_compare,
    viz_dream,
    viz_intervene,
    viz_metrics,
    viz_pictures,
    viz_report,
    viz_returns,
    viz_serve,
)

app = typer.Typer(no_args_is_help=True, help="See whether a world model is right.")

app.command("metrics")(viz_metrics.metrics)
app.command("openloop")(viz_pictures.openloop)
app.command("recon")(viz_pictures.recon)
app.command("dream")(viz_dream.dream)
app.command("returns")(viz_returns.returns)
app.command("codes")(viz_codes.codes)
app.command("compare")(viz_compare.compare)
app.command("intervene")(viz_intervene.intervene)
app.command("report")(viz_report.report)
app.command("serve")(viz_serve.serve)
