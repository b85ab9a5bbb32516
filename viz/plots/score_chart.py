"""The paper's bar chart of differences: one agent against others, game by game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.viz.draw.canvas import (
    BLUE,
    FAINT,
    GRAY,
    INK,
    LINE,
    ORANGE,
    PAPER,
    TEXT,
    Canvas,
    Image,
    elide,
    text_width,
)

MARGIN = 20
TITLE = 46  # pixels above the bars of a panel, for its title and the numbers of its scale
ROW = 17
BAR = 11
PLOT = 290  # pixels for the bars of a panel
VALUE = 46  # pixels on both sides of them, for the number at the end of a bar
NAME = 136
GAP = 30
LINEAR = 0.1  # differences up to about this are drawn to scale, larger ones by their logarithm
EXPLANATION = (
    "Bars are differences of gamer normalized scores (random play is 0, the gamer 1), to the right "
    "where the first agent is better. The scale is logarithmic beyond 0.1."
)


@dataclass(frozen=True)
class Panel:
    """One comparison; games and their differences in the order in which they are drawn."""

    title: str
    games: Sequence[str]
    values: ArrayLike


def squeeze(values: ArrayLike) -> NDArray[np.float64]:
    """A scale for numbers of very different size and both signs: 0.1, 1, 10 are equally apart."""
    numbers = np.asarray(values, np.float64)
    squeezed: NDArray[np.float64] = np.sign(numbers) * np.log10(1 + np.abs(numbers) / LINEAR)
    return squeezed


def difference_chart(panels: Sequence[Panel], *, title: str, subtitle: str = "") -> Image:
    """Panels side by side on one scale, a row for each game: advantages right, the rest left."""
    assert panels, "nothing to draw"
    everything = np.concatenate([np.asarray(panel.values, np.float64) for panel in panels])
    scale = Scale.of(everything)
    rows = max(len(panel.games) for panel in panels)
    pitch = NAME + PLOT + 2 * VALUE + GAP
    lines = _wrapped(f"{subtitle} {EXPLANATION}", len(panels) * pitch - GAP)
    top = 42 + len(lines) * LINE + 12
    width = 2 * MARGIN + len(panels) * pitch - GAP
    canvas = Canvas(width, top + TITLE + rows * ROW + MARGIN)
    canvas.text(MARGIN, 14, elide(title, width - 2 * MARGIN, 20), size=20)
    for number, line in enumerate(lines):
        canvas.text(MARGIN, 42 + number * LINE, line, color=GRAY)
    for number, panel in enumerate(panels):
        _draw_panel(canvas, MARGIN + number * pitch, top, panel, scale)
    return canvas.pixels()


@dataclass(frozen=True)
class Scale:
    """Where a difference is drawn: pixels from the left end of the bars."""

    low: float  # squeezed
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Scale:
        squeezed = squeeze(values)
        low, high = min(0.0, float(squeezed.min())), max(0.0, float(squeezed.max()))
        return cls(low, high) if high > low else cls(low, low + 1)

    def at(self, value: float) -> int:
        share = (float(squeeze(value)) - self.low) / (self.high - self.low)
        return round(share * PLOT)

    def ticks(self) -> list[float]:
        """Zero and the powers of ten that are on the scale and far enough apart."""
        powers = [10.0**exponent for exponent in range(-1, 7)]
        numbers = [-power for power in reversed(powers)] + [0.0] + powers
        inside = [value for value in numbers if 0 <= self.at(value) <= PLOT]
        return [value for value in inside if value == 0 or abs(self.at(value) - self.at(0)) >= 20]


def _draw_panel(canvas: Canvas, x: int, y: int, panel: Panel, scale: Scale) -> None:
    values = np.asarray(panel.values, np.float64)
    assert len(panel.games) == len(values), (len(panel.games), len(values))
    left = x + NAME + VALUE
    canvas.text(x, y, elide(panel.title, NAME + PLOT, 16), size=16)
    count = tally(values)
    canvas.text(left + PLOT + VALUE - text_width(count), y + 2, count, color=GRAY)
    bottom = y + TITLE + len(values) * ROW
    for tick in scale.ticks():
        at = left + scale.at(tick)
        label = f"{tick:+g}" if tick else "0"
        canvas.text(at - text_width(label) // 2, y + TITLE - LINE - 2, label, color=GRAY)
        canvas.fill(at, y + TITLE - 2, 1, bottom - y - TITLE + 2, FAINT)
    zero = left + scale.at(0)
    for row, (game, value) in enumerate(zip(panel.games, values.tolist(), strict=True)):
        middle = y + TITLE + row * ROW + ROW // 2
        name = elide(spoken(game), NAME - 6)
        canvas.text(x + NAME - 6 - text_width(name), middle - TEXT // 2 - 2, name)
        _draw_bar(canvas, zero, left + scale.at(value), middle, value)
    canvas.fill(zero, y + TITLE - 2, 1, bottom - y - TITLE + 2, INK)


def _draw_bar(canvas: Canvas, zero: int, end: int, middle: int, value: float) -> None:
    """A bar from zero to its end, and its number behind the end."""
    color = BLUE if value >= 0 else ORANGE
    canvas.fill(min(zero, end), middle - BAR // 2, abs(end - zero), BAR, color)
    label = short(value)
    x = end + 4 if value >= 0 else end - 3 - text_width(label)
    canvas.fill(x - 1, middle - BAR // 2, text_width(label) + 2, BAR, PAPER)  # over the grid
    canvas.text(x, middle - TEXT // 2 - 2, label, color=GRAY)


def tally(values: NDArray[np.float64]) -> str:
    """How many differences are above, at and below zero."""
    signs = {
        "better": (values > 0).sum(),
        "equal": (values == 0).sum(),
        "worse": (values < 0).sum(),
    }
    return ", ".join(f"{count} {name}" for name, count in signs.items() if count)


def spoken(game: str) -> str:
    """A game's name for readers: up_n_down is Up N Down."""
    return game.replace("_", " ").title()


def short(value: float) -> str:
    """A signed number that is no wider than five letters: +0.05, -1.2, +53, +63k."""
    if abs(value) < 0.005:
        return "0"
    if abs(value) >= 999.5:
        return f"{value / 1000:+.0f}k"
    digits = 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
    return f"{value:+.{digits}f}"


def _wrapped(text: str, width: int) -> list[str]:
    """A text in lines that fit, broken between words."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
