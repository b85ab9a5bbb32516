"""The common style of charts, and functions that write them to files.

Figures are created without pyplot, so that they have no window and no global state. Notebooks
display a figure that is the last value of a cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from wmtk.viz.draw.canvas import Image, elide, text_width
from wmtk.viz.videos.video_file import Written, replacing, require_ending, write_image

FIGURE_ENDINGS = (".png", ".svg", ".pdf")
DPI = 110  # pixels per inch of PNG files

# The palette of Okabe and Ito, which is safe for all kinds of color vision.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
POSTERIOR, PRIOR = PALETTE[0], PALETTE[1]
BASELINES = ("#6b7280", "#a08a5b")
TEXT_COLOR, SOFT_COLOR, GRID_COLOR = "#1c2026", "#5b626c", "#e4e7eb"

TITLE_SIZE, PANEL_SIZE, TEXT_SIZE, SMALL_SIZE = 13.0, 10.5, 9.5, 8.5  # points
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": TEXT_SIZE,
    "text.color": TEXT_COLOR,
    "axes.titlesize": PANEL_SIZE,
    "axes.titlelocation": "left",
    "axes.labelsize": TEXT_SIZE,
    "axes.labelcolor": SOFT_COLOR,
    "axes.edgecolor": "#9aa1aa",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": TEXT_SIZE,
    "legend.borderaxespad": 0.5,
    "text.parse_math": False,  # a $ in a name is no formula
    "svg.hashsalt": "wmtk",  # equal figures become equal files
}
# Removes the time of writing, so that equal figures are equal files.
TIMELESS: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}


@contextmanager
def styled_figure(
    width: float, height: float, title: str, caption: str
) -> Iterator[tuple[Figure, SubFigure]]:
    """A figure of a size in inches, and its part between the title and the caption to draw into."""
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.09)  # type: ignore[union-attr, call-arg]
        if title:
            text = shorten(title, (width - 0.2) / 1.15, TITLE_SIZE)  # bold letters are wider
            figure.suptitle(text, x=0.1 / width, ha="left", size=TITLE_SIZE, weight="bold")
        if lines := wrapped(caption, width - 0.2):
            figure.supxlabel(
                lines, x=0.1 / width, ha="left", size=SMALL_SIZE, color=SOFT_COLOR, linespacing=1.4
            )
        # A legend outside of axes would overlap the title if both belonged to the same figure.
        yield figure, figure.add_subfigure(figure.add_gridspec(1, 1)[0])


def style_axes(axes: Axes, *, grid: str = "y") -> None:
    """Grid lines and ticks; `grid` is "x", "y", "both" or "" for none."""
    # Set here, as ticks are created when the figure is drawn, outside of the style context.
    axes.tick_params(colors=SOFT_COLOR, labelsize=SMALL_SIZE, length=3)
    axes.tick_params(which="minor", length=0)
    if grid:
        axes.grid(visible=True, axis=grid, color=GRID_COLOR, linewidth=0.8)  # type: ignore[arg-type]


def count_axis(axes: Axes) -> None:
    """Whole numbers along the horizontal axis, with thousands separated: 20,000."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def text_inches(text: str, size: float) -> float:
    """The approximate width in inches of a text of a size in points."""
    return text_width(text, 100) * size / 72 / 100 * 1.05


def shorten(text: str, width: float, size: float) -> str:
    """As much of a text as fits into a width in inches, with … where something is left out."""
    return elide(text, round(100 * 72 * width / size / 1.05), 100)


def wrapped(text: str, width: float, size: float = SMALL_SIZE) -> str:
    """A text in lines that fit into a width in inches."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_inches(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Written:
    """Write a figure as PNG, SVG or PDF, as the path ends; width and height are in pixels."""
    target = Path(path)
    ending = require_ending(target, FIGURE_ENDINGS)
    if ending == ".png":
        return write_image(target, figure_pixels(figure))
    with style.context(["default", STYLE]), replacing(target) as unfinished:
        figure.savefig(unfinished, metadata=TIMELESS[ending])
    width, height = (int(side * figure.dpi) for side in figure.get_size_inches())
    return Written(target, 1, width, height, target.stat().st_size)


def figure_pixels(figure: Figure) -> Image:
    """A figure as pixels (H, W, 3), such as the frame of a video."""
    canvas = FigureCanvasAgg(figure)
    with style.context(["default", STYLE]):
        canvas.draw()  # type: ignore[no-untyped-call]
    pixels: Image = np.array(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]
    return pixels
