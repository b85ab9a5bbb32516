"""How often each class of each discrete latent variable is used."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from wmtk.stats import Numbers
from wmtk.viz.draw.code_squares import DARK, DEAD, LIGHT
from wmtk.viz.metrics.codes import CodeUsage
from wmtk.viz.metrics.divergences import entropy
from wmtk.viz.plots.figures import POSTERIOR, PRIOR, SMALL_SIZE, style_axes, styled_figure, wrapped

MAP = 3.6  # inches of the longer side of a map, roughly
SMALLEST, LARGEST = 0.11, 0.3  # inches of a square
BARS = 1.7  # inches of a panel of bars
SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # the ticks of the color scale
DEAD_COLOR, LIGHT_COLOR, DARK_COLOR = (
    "#{:02x}{:02x}{:02x}".format(*c) for c in (DEAD, LIGHT, DARK)
)
# The square root makes differences between small shares visible.
SHARE_NORM = PowerNorm(0.5, 0, 1)
SHARE_COLORS = LinearSegmentedColormap.from_list("share", [LIGHT_COLOR, DARK_COLOR]).with_extremes(
    bad=DEAD_COLOR
)


def code_map(usage: CodeUsage, prior: Numbers, *, title: str = "", caption: str = "") -> Figure:
    """Maps of the shares of classes (V, K) by posterior and prior, and bars for each variable."""
    V, K = usage.usage.shape
    side = float(np.clip(MAP / max(V, K), SMALLEST, LARGEST))
    map_width = max(K * side, 1.6)
    width = 2 * map_width + 2 * BARS + 2.4
    note = (
        "The posterior has observed the frame, the prior has not. "
        f"Dead classes are used in less than {usage.threshold:.2%} of {usage.frames:,} frames. "
        "Perplexity: the number of classes in effective use. Information about the frame: "
        "H(mean posterior) − mean H(posterior)."
    )
    caption = f"{caption} {note}".strip()
    height = max(V * side, 1.3) + 1.5 + 0.17 * wrapped(caption, width - 0.2).count("\n")
    with styled_figure(width, height, title, caption) as (figure, body):
        left, middle, first, second = body.subplots(
            1, 4, sharey=True, width_ratios=[map_width, map_width, BARS, BARS]
        )
        left.invert_yaxis()
        draw_map(left, usage.usage, usage.threshold, "Posterior")
        mesh = draw_map(middle, prior, usage.threshold, "Prior")
        middle.tick_params(axis="y", length=0)
        every = max(1, math.ceil(0.13 / side))
        left.set_yticks(np.arange(0, V, every), [f"z{v}" for v in range(0, V, every)])
        left.set_ylabel("latent variable")
        scale = body.colorbar(mesh, ax=middle, ticks=SHARES, aspect=28, pad=0.03)
        scale.ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        style_axes(scale.ax, grid="")
        scale.set_label("share of frames", size=SMALL_SIZE)
        draw_bars(first, usage.perplexity, f"Perplexity (of {K})", "classes", K)
        draw_ticks(first, np.exp(entropy(prior)))
        most = math.log(K)
        draw_bars(second, usage.information, f"Information (of {most:.2f})", "nats", most)
        handles = [
            Patch(color=DEAD_COLOR, label="dead class"),
            Patch(color=POSTERIOR, label="posterior"),
            Patch(color=PRIOR, label="prior"),
        ]
        body.legend(handles=handles, loc="outside upper left", ncols=3, handlelength=1.1)
    return figure


def draw_map(axes: Axes, usage: Numbers, threshold: float, title: str) -> QuadMesh:
    """A square for each class (V, K): the darker, the more often it is used; dead ones pale red."""
    V, K = usage.shape
    mesh = axes.pcolormesh(
        np.arange(K + 1) - 0.5,
        np.arange(V + 1) - 0.5,
        np.ma.masked_less(usage, threshold),
        cmap=SHARE_COLORS,
        norm=SHARE_NORM,
        edgecolors="white",
        linewidth=0.6,
    )
    axes.set_title(title)
    axes.set_xlabel("class")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9, steps=[1, 2, 4, 5, 8, 10]))
    axes.spines[:].set_visible(False)
    style_axes(axes, grid="")
    return mesh


def draw_bars(axes: Axes, values: Numbers, title: str, label: str, most: float) -> None:
    """A horizontal bar (V,) for each variable."""
    axes.barh(np.arange(len(values)), values, height=0.8, color=POSTERIOR)
    axes.set_xlim(0, most)
    axes.set_title(title)
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    style_axes(axes, grid="x")
    axes.tick_params(axis="y", length=0)


def draw_ticks(axes: Axes, values: Numbers) -> None:
    """A mark (V,) on the bar of each variable."""
    rows = np.arange(len(values))
    axes.vlines(values, rows - 0.45, rows + 0.45, color=PRIOR, linewidth=2)
