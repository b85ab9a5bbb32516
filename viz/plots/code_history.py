"""How the use of codes changes over the checkpoints of a training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from wmtk.stats import Estimate, Numbers
from wmtk.viz.metrics.codes import CodeUsage, usage_distance
from wmtk.viz.metrics.divergences import entropy
from wmtk.viz.plots.code_map import SHARE_COLORS, SHARE_NORM
from wmtk.viz.plots.curves import (
    HEIGHT,
    WIDTH,
    Curve,
    CurvePanel,
    draw_legend,
    draw_panel,
)
from wmtk.viz.plots.figures import (
    PALETTE,
    PANEL_SIZE,
    POSTERIOR,
    PRIOR,
    SMALL_SIZE,
    SOFT_COLOR,
    styled_figure,
    wrapped,
)
from wmtk.viz.plots.quality_chart import without_interval

MOST_MAPS = 10  # of checkpoints, spread over the training
MAP = 1.25  # inches of the longer side of a small map
NOTE = (
    "The posterior has observed the frame, the prior has not. Bands reach from the lowest variable "
    "to the highest. Maps: a row for each variable, a column for each class; darker classes are "
    "used more often, dead ones are pale red."
)


@dataclass(frozen=True)
class CheckpointCodes:
    """The use of codes after some updates."""

    update: int
    usage: CodeUsage
    prior: Numbers  # (V, K)

    @property
    def distance(self) -> Numbers:
        """(V,), the total variation distance of the use by the prior from that by the posterior."""
        return usage_distance(self.usage.usage, self.prior)


def code_history(
    checkpoints: Sequence[CheckpointCodes], *, title: str = "", caption: str = ""
) -> Figure:
    """Curves over the checkpoints, and below them a small map of each."""
    assert checkpoints, "nothing to draw"
    panels = history_panels(checkpoints)
    chosen = spread(checkpoints, MOST_MAPS)
    width = 2 * WIDTH
    V, K = chosen[0].usage.usage.shape
    map_height = min(MAP * V / max(V, K), MAP) + 0.3
    caption = f"{caption} {NOTE}".strip()
    chart_height, maps_height = 2 * HEIGHT + 0.2, 2 * (map_height + 0.3)
    height = chart_height + maps_height + 0.75 + 0.17 * wrapped(caption, width - 0.2).count("\n")
    with styled_figure(width, height, title, caption) as (figure, body):
        heights = [chart_height, maps_height / 2, maps_height / 2]
        grid = body.add_gridspec(3, 1, height_ratios=heights)
        top, posterior, prior = (body.add_subfigure(grid[row]) for row in range(3))
        lines: dict[str, Line2D] = {}
        for axes, panel in zip(top.subplots(2, 2).flat, panels, strict=True):
            lines |= draw_panel(axes, panel)
        draw_legend(top, panels, lines, width)
        draw_maps(
            posterior,
            "Posterior (after observing the frame), by update",
            chosen,
            lambda c: c.usage.usage,
        )
        draw_maps(prior, "Prior (before observing it), by update", chosen, lambda c: c.prior)
    return figure


def draw_maps(
    figure: SubFigure,
    title: str,
    checkpoints: Sequence[CheckpointCodes],
    usage_of: Callable[[CheckpointCodes], Numbers],
) -> None:
    """A row of small maps, one for each checkpoint."""
    figure.suptitle(title, x=0.012, ha="left", size=PANEL_SIZE)
    row = figure.subplots(1, MOST_MAPS, squeeze=False)[0]
    for axes in row[len(checkpoints) :]:
        axes.set_axis_off()
    for axes, checkpoint in zip(row, checkpoints, strict=False):
        usage = np.ma.masked_less(usage_of(checkpoint), checkpoint.usage.threshold)
        axes.imshow(usage, cmap=SHARE_COLORS, norm=SHARE_NORM, interpolation="nearest")
        axes.set_xlabel(f"{checkpoint.update:,}", size=SMALL_SIZE, color=SOFT_COLOR)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color("#d0d5db")


def history_panels(checkpoints: Sequence[CheckpointCodes]) -> list[CurvePanel]:
    """Perplexity, information, dead classes, and the distance of prior and posterior."""
    K = checkpoints[0].usage.usage.shape[1]
    prior_perplexity = [np.exp(entropy(c.prior)) for c in checkpoints]
    prior_dead = [float((c.prior < c.usage.threshold).mean()) for c in checkpoints]
    rows = {
        f"Perplexity of a variable (of {K})": (
            "classes",
            [
                Curve(
                    "posterior",
                    over_variables([c.usage.perplexity for c in checkpoints]),
                    POSTERIOR,
                ),
                Curve("prior", over_variables(prior_perplexity), PRIOR),
            ],
        ),
        "Information of a variable about the frame": (
            "nats",
            [
                Curve(
                    "posterior",
                    over_variables([c.usage.information for c in checkpoints]),
                    POSTERIOR,
                )
            ],
        ),
        "Dead classes": (
            "share of classes",
            [
                Curve(
                    "posterior",
                    without_interval([c.usage.dead_share for c in checkpoints]),
                    POSTERIOR,
                ),
                Curve("prior", without_interval(prior_dead), PRIOR),
            ],
        ),
        "Distance of prior and posterior use": (
            "total variation",
            [
                Curve(
                    "prior against posterior",
                    over_variables([c.distance for c in checkpoints]),
                    PALETTE[2],
                )
            ],
        ),
    }
    x = [float(c.update) for c in checkpoints]
    return [
        CurvePanel(title, curves, "update", unit, x, zero=True)
        for title, (unit, curves) in rows.items()
    ]


def spread(checkpoints: Sequence[CheckpointCodes], most: int) -> list[CheckpointCodes]:
    """At most `most` checkpoints, evenly spaced, with the first and the last."""
    count = min(most, len(checkpoints))
    chosen = np.unique(np.round(np.linspace(0, len(checkpoints) - 1, count)))
    return [checkpoints[int(number)] for number in chosen]


def over_variables(values: Sequence[Numbers]) -> Estimate:
    """The means over variables, with the lowest and the highest as the interval."""
    rows = np.stack(values)
    return Estimate(rows.mean(1), rows.min(1), rows.max(1))
