"""Numbers over the steps of a horizon or of a training, as curves with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from wmtk.stats import Estimate
from wmtk.viz.plots.figures import (
    BASELINES,
    PANEL_SIZE,
    SMALL_SIZE,
    SOFT_COLOR,
    TEXT_COLOR,
    TEXT_SIZE,
    count_axis,
    shorten,
    style_axes,
    styled_figure,
    text_inches,
    wrapped,
)

COLUMNS = 2
WIDTH = 4.5  # inches of a panel
SINGLE = 7.0  # inches of a chart of one panel
HEIGHT = 2.55
LEGEND_MARK = 0.55  # inches of a line in the legend with its gaps
MARKED = 30  # curves of at most this many numbers have a point at each
ROOM = 0.06  # of the range, above the highest and below the lowest number


@dataclass(frozen=True)
class Curve:
    """A name for the legend (none if empty), numbers (H,) with intervals, a color."""

    name: str
    values: Estimate
    color: str
    dashed: bool = False


@dataclass(frozen=True)
class CurvePanel:
    """Curves on one scale.

    `x` (H,) are the positions of the values, by default the steps 1 … H. `zero` draws a line at 0
    and includes it in the range. `levels` are numbers to compare with, by their names.
    """

    title: str
    curves: Sequence[Curve]
    x_label: str = "step"
    y_label: str = ""
    x: Sequence[float] | None = None
    zero: bool = False
    levels: Mapping[str, float] = field(default_factory=dict)


def curve_figure(panels: Sequence[CurvePanel], *, title: str = "", caption: str = "") -> Figure:
    """Panels in rows of two below one legend; intervals are bands."""
    assert panels, "nothing to draw"
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width = SINGLE if columns == 1 else columns * WIDTH
    labels = legend_rows(panels, width)
    text_lines = wrapped(caption, width - 0.2).count("\n") + 1 if caption else 0
    height = rows * HEIGHT + 0.45 + 0.2 * len(labels) + 0.18 * text_lines
    with styled_figure(width, height, title, caption) as (figure, body):
        grid = body.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        lines: dict[str, Line2D] = {}
        for axes, panel in zip(grid.flat, panels, strict=False):
            lines |= draw_panel(axes, panel)
        draw_legend(body, panels, lines, width)
    return figure


def draw_panel(axes: Axes, panel: CurvePanel) -> dict[str, Line2D]:
    """The curves of a panel with its axes; returns the lines by the names of the curves."""
    style_axes(axes)
    axes.set_title(shorten(panel.title, WIDTH - 0.5, PANEL_SIZE))
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    if panel.zero:
        axes.axhline(0, color=TEXT_COLOR, linewidth=1, zorder=1.5)
    x = positions(panel)
    lines = {curve.name: draw_curve(axes, x, curve) for curve in panel.curves}
    low, high = limits(panel)
    axes.set_ylim(low, high)
    margin = 0.03 * (x[-1] - x[0]) or 0.5
    axes.set_xlim(x[0] - margin, x[-1] + margin)
    count_axis(axes)
    if panel.x is None:  # steps begin at 1, not at 0
        ticks = [tick for tick in axes.get_xticks() if x[0] < tick <= x[-1]]
        axes.set_xticks([x[0], *ticks] if not ticks or ticks[0] >= 2 else ticks)
    for name, value in panel.levels.items():
        axes.axhline(value, color=BASELINES[0], linewidth=1.1, linestyle=(0, (4, 3)), zorder=1.5)
        below = value > low + 0.88 * (high - low)
        axes.annotate(
            shorten(name, WIDTH - 1, SMALL_SIZE),
            (1, value),
            (-3, -3 if below else 3),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="top" if below else "bottom",
            size=SMALL_SIZE,
            color=SOFT_COLOR,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )
    return lines


def draw_curve(axes: Axes, x: NDArray[np.float64], curve: Curve) -> Line2D:
    """A line through the finite numbers, and a band where the interval is finite."""
    value, low, high = curve.values.value, curve.values.low, curve.values.high
    finite = np.isfinite(value)
    points = int(finite.sum())
    banded = np.isfinite(low) & np.isfinite(high)
    if banded.sum() > 1 and not curve.dashed:
        axes.fill_between(
            x[banded], low[banded], high[banded], color=curve.color, alpha=0.18, linewidth=0
        )
    (line,) = axes.plot(
        x[finite],
        value[finite],
        color=curve.color,
        linewidth=1.5 if curve.dashed else 1.9,
        linestyle=(0, (4, 2.5)) if curve.dashed else "-",
        marker="o" if points <= (1 if curve.dashed else MARKED) else "",
        markersize=3.6,
        zorder=2.2 if curve.dashed else 2.5,
    )
    return line


def legend_rows(panels: Sequence[CurvePanel], width: float) -> list[list[str]]:
    """The names of all curves, each once, in rows that fit into a width in inches."""
    names = dict.fromkeys(c.name for panel in panels for c in panel.curves if c.name)
    widest = max((text_inches(name, TEXT_SIZE) for name in names), default=0) + LEGEND_MARK
    columns = max(1, int((width - 0.2) / widest))
    listed = list(names)
    return [listed[start : start + columns] for start in range(0, len(listed), columns)]


def draw_legend(
    figure: SubFigure, panels: Sequence[CurvePanel], lines: Mapping[str, Line2D], width: float
) -> None:
    """One legend for all panels, above them; `lines` are an example of each name."""
    rows = legend_rows(panels, width)
    if not rows:
        return
    columns = len(rows[0])
    # Legends are filled column by column.
    order = [name for k in range(columns) for row in rows for name in row[k : k + 1]]
    figure.legend(
        [lines[name] for name in order],
        [shorten(name, width - 0.2 - LEGEND_MARK, TEXT_SIZE) for name in order],
        loc="outside upper left",
        ncols=columns,
        columnspacing=1.6,
        handlelength=1.8,
    )


def positions(panel: CurvePanel) -> NDArray[np.float64]:
    """The horizontal positions of the values (H,) of a panel."""
    if panel.x is not None:
        return np.asarray(panel.x, np.float64)
    return np.arange(1.0, len(panel.curves[0].values.value) + 1)


def limits(panel: CurvePanel) -> tuple[float, float]:
    """The range of a panel: all curves, and intervals where they are not extreme."""
    drawn = [curve.values.value for curve in panel.curves]
    values = np.concatenate([*drawn, np.array([*panel.levels.values()], np.float64)])
    values = values[np.isfinite(values)]
    if panel.zero:
        values = np.append(values, 0.0)
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    reach = max(high - low, 1e-9)
    bounds = np.concatenate([[*c.values.low, *c.values.high] for c in panel.curves])
    near = bounds[np.isfinite(bounds) & (bounds > low - reach) & (bounds < high + reach)]
    if len(near):
        low, high = min(low, float(near.min())), max(high, float(near.max()))
    room = ROOM * (high - low) or 0.5
    return low - room, high + room
