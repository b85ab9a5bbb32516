"""The returns that a critic expects against those that were reached, over the checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from wmtk.viz.metrics.training_returns import TrainingReturns
from wmtk.viz.plots.curves import Curve, CurvePanel, curve_figure
from wmtk.viz.plots.figures import PALETTE


def returns_figure(
    returns: TrainingReturns, updates: Sequence[int], *, title: str = "", caption: str = ""
) -> Figure:
    """Mean discounted returns, imagined and achieved, at each of C checkpoints."""
    curves = [
        Curve("imagined (value of the first state)", returns.imagined, PALETTE[0]),
        Curve("achieved (discounted return)", returns.true, PALETTE[1]),
    ]
    panel = CurvePanel(
        "Mean return of an episode", curves, "update", "discounted return", updates, zero=True
    )
    return curve_figure([panel], title=title, caption=caption)
