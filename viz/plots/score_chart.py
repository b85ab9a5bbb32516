"""The paper's bar chart of differences: one agent against others, game by game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter
from numpy.typing import ArrayLike, NDArray

from wmtk.viz.plots.figures import (
    PALETTE,
    PANEL_SIZE,
    SMALL_SIZE,
    SOFT_COLOR,
    TEXT_COLOR,
    shorten,
    style_axes,
    styled_figure,
    wrapped,
)

BETTER, WORSE = PALETTE[0], PALETTE[1]
WIDTH = 5.0  # inches of a panel
ROW = 0.165  # inches of a bar with its distance to the next
NAME = 1.5  # inches of the name of a game, at most
LINEAR = 0.1  # differences up to this are drawn to scale, larger ones by their logarithm
EXPLANATION = (
    "Bars are differences of gamer-normalized scores (random play is 0, the human gamer 1), to the "
    "right where the first agent is better. The scale is about linear up to 0.1 and logarithmic "
    "beyond."
)


@dataclass(frozen=True)
class ScoreComparison:
    """Two agents; games and their differences (G,) in the order in which they are drawn."""

    title: str
    games: Sequence[str]
    values: ArrayLike


def difference_figure(
    comparisons: Sequence[ScoreComparison], *, title: str, caption: str = ""
) -> Figure:
    """Panels side by side on one scale, a bar for each game."""
    assert comparisons, "nothing to draw"
    games = max(len(comparison.games) for comparison in comparisons)
    width = WIDTH * len(comparisons)
    caption = f"{caption} {EXPLANATION}".strip()
    height = max(games, 3) * ROW + 1.7 + 0.17 * wrapped(caption, width - 0.2).count("\n")
    values = np.concatenate([np.asarray(c.values, np.float64) for c in comparisons])
    with styled_figure(width, height, title, caption) as (figure, body):
        panels = body.subplots(1, len(comparisons), squeeze=False)[0]
        for axes, comparison in zip(panels, comparisons, strict=True):
            draw_comparison(axes, comparison, games, (values.min(), values.max()))
    return figure


def draw_comparison(
    axes: Axes, comparison: ScoreComparison, rows: int, span: tuple[float, float]
) -> None:
    """The bars of one panel, of `rows` rows, on a scale that reaches over `span`."""
    values = np.asarray(comparison.values, np.float64)
    assert len(comparison.games) == len(values), (len(comparison.games), len(values))
    at = np.arange(len(values))
    bars = axes.barh(at, values, height=0.72, color=np.where(values >= 0, BETTER, WORSE).tolist())
    axes.bar_label(
        bars, [short(v) for v in values], padding=3, size=SMALL_SIZE - 1, color=SOFT_COLOR
    )
    axes.set_yticks(at, [shorten(game_title(game), NAME, SMALL_SIZE) for game in comparison.games])
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_xscale("function", functions=(squeeze, unsqueeze))
    low, high = scale_limits(*span)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(powers_of_ten(low, high)))
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: signed_number(value)))
    axes.axvline(0, color=TEXT_COLOR, linewidth=1)
    axes.set_title(f"{shorten(comparison.title, WIDTH - NAME - 0.3, PANEL_SIZE)}\n{tally(values)}")
    axes.set_xlabel("difference of normalized scores")
    axes.spines["left"].set_visible(False)
    style_axes(axes, grid="x")
    axes.tick_params(axis="y", length=0, labelcolor=TEXT_COLOR)


def squeeze(values: ArrayLike) -> NDArray[np.float64]:
    """The scale of the chart: about linear for small numbers, logarithmic for large ones."""
    numbers = np.asarray(values, np.float64)
    squeezed: NDArray[np.float64] = np.sign(numbers) * np.log10(1 + np.abs(numbers) / LINEAR)
    return squeezed


def unsqueeze(values: ArrayLike) -> NDArray[np.float64]:
    """The inverse of `squeeze`."""
    numbers = np.asarray(values, np.float64)
    restored: NDArray[np.float64] = np.sign(numbers) * (10 ** np.abs(numbers) - 1) * LINEAR
    return restored


def scale_limits(low: float, high: float) -> tuple[float, float]:
    """The ends of the scale, with room for the numbers at the ends of the bars."""
    ends = squeeze(np.array([min(low, 0.0), max(high, 0.0)]))
    room = 0.14 * max(ends[1] - ends[0], 0.3)
    ends += [-room if low < 0 else -room / 4, room]
    left, right = unsqueeze(ends).tolist()
    return left, right


def powers_of_ten(low: float, high: float) -> list[float]:
    """0 and, on both sides of it, at most three of 0.1, 1, 10, … within a range."""
    reach = max(-low, high)
    step = 1 if reach < 200 else 2 if reach < 20_000 else 3
    exponents = range(-1, 7) if reach < 2 else range(0, 7, step)
    powers = [10.0**exponent for exponent in exponents]
    signed = [*(-power for power in reversed(powers)), 0.0, *powers]
    return [value for value in signed if low <= value <= high]


def signed_number(value: float) -> str:
    """A tick of the scale: −100, 0, +0.1, +10k."""
    text = f"{value / 1000:+g}k" if abs(value) >= 1000 else f"{value:+g}"
    return text.replace("-", "−") if value else "0"


def tally(values: NDArray[np.float64]) -> str:
    """The numbers of differences above, at and below zero."""
    signs = {
        "better": (values > 0).sum(),
        "equal": (values == 0).sum(),
        "worse": (values < 0).sum(),
    }
    return ", ".join(f"{count} {name}" for name, count in signs.items() if count)


def game_title(game: str) -> str:
    """The title of a game: up_n_down becomes Up N Down."""
    return game.replace("_", " ").title()


def short(value: float) -> str:
    """A signed number of at most five characters: +0.05, −1.2, +53, +63k."""
    if abs(value) < 0.005:
        return "0"
    if abs(value) >= 999.5:
        text = f"{value / 1000:+.0f}k"
    else:
        digits = 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
        text = f"{value:+.{digits}f}"
    return text.replace("-", "−")
