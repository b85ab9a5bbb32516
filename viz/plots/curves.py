"""Numbers at each step of a horizon as curves with their intervals, in panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wmtk.stats import Estimate, Numbers
from wmtk.viz.draw.canvas import (
    FAINT,
    GRAY,
    INK,
    LINE,
    PAPER,
    Canvas,
    Color,
    Image,
    elide,
    text_width,
)
from wmtk.viz.draw.lanes import FINE, ticks

COLORS: tuple[Color, ...] = (
    (21, 101, 192),
    (219, 109, 0),
    (24, 128, 56),
    (142, 36, 170),
    (200, 38, 38),
    (0, 121, 107),
)
QUIET: Color = (150, 156, 164)  # of baselines
MARGIN = 20
HEADER = 66
HEAD = 28  # pixels above the lines of a panel, for its title
PLOT_WIDTH, PLOT_HEIGHT = 420, 220
SCALE = 46  # pixels left of the lines for their numbers
AXIS = 24  # pixels below the lines for the steps
GAP = 34
COLUMNS = 2
DASH = 7
ROOM = 0.06  # of the range, above the highest and below the lowest number


@dataclass(frozen=True)
class Curve:
    name: str  # without one it is not among the names above the chart
    values: Estimate  # (H,), at steps 1 … H
    color: Color
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves on one scale. `zero` draws a line there, and makes sure that it is on the chart.

    `places` are the names of what the values are at, if that is not the steps 1 … H. `levels` are
    numbers to compare with, by their names.
    """

    title: str
    curves: Sequence[Curve]
    zero: bool = False
    places: Sequence[str] = ()
    levels: Mapping[str, float] = field(default_factory=dict)


def curve_chart(panels: Sequence[Panel], *, title: str = "", subtitle: str = "") -> Image:
    """Panels in rows of two, each with the names of its curves below its title."""
    assert panels, "nothing to draw"
    columns = min(COLUMNS, len(panels))
    names = max(len(_names(panel.curves)) for panel in panels) * LINE + 6
    wide, high = SCALE + PLOT_WIDTH, HEAD + names + PLOT_HEIGHT + AXIS
    rows = -(-len(panels) // columns)
    width = 2 * MARGIN + columns * wide + (columns - 1) * GAP
    canvas = Canvas(width, HEADER + rows * (high + GAP))
    canvas.text(MARGIN, 14, elide(title, width - 2 * MARGIN, 20), size=20)
    canvas.text(MARGIN, 40, elide(subtitle, width - 2 * MARGIN), color=GRAY)
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        x, y = MARGIN + column * (wide + GAP), HEADER + row * (high + GAP)
        _draw_panel(canvas, x, y, panel, names)
    return canvas.pixels()


def _draw_panel(canvas: Canvas, x: int, y: int, panel: Panel, names: int) -> None:
    canvas.text(x, y, elide(panel.title, SCALE + PLOT_WIDTH, 15), size=15)
    _draw_names(canvas, x, y + HEAD - 4, panel.curves)
    low, high = limits(panel)
    left, top = x + SCALE, y + HEAD + names
    length = len(panel.curves[0].values.value)
    canvas.paste(left, top, _plot(panel, low, high))

    def down(value: float) -> int:
        return top + round((high - value) / (high - low) * (PLOT_HEIGHT - 1))

    for name, value in panel.levels.items():
        # Above its line, unless there is no room.
        at = down(value) + (-16 if down(value) - 16 > top else 3)
        text = elide(name, PLOT_WIDTH // 2, 11)
        canvas.text(left + PLOT_WIDTH - 5 - text_width(text, 11), at, text, size=11, color=GRAY)
    for value in round_numbers(low, high):
        at = down(value)
        text = f"{value + 0.0:g}"
        canvas.text(left - 6 - text_width(text, 11), at - 7, text, size=11, color=GRAY)
    bottom = top + PLOT_HEIGHT
    for step, text in _marks(panel, length):
        at = left + _across(step - 1, length) // FINE
        canvas.fill(at, bottom, 1, 4, GRAY)
        canvas.text(at - text_width(text, 11) // 2, bottom + 5, text, size=11, color=GRAY)


def _marks(panel: Panel, length: int) -> list[tuple[int, str]]:
    """Steps and what is written below them; of many names only as many as there is room for."""
    if not panel.places:
        return [(s, f"step {s}" if s == 1 else str(s)) for s in [1, *ticks(length)[1:]]]
    widest = max(text_width(name, 11) for name in panel.places) + 12
    every = math.ceil(widest * length / PLOT_WIDTH)
    return [(n, panel.places[n - 1]) for n in range(length, 0, -every)]


def _names(curves: Sequence[Curve]) -> list[list[tuple[int, Curve]]]:
    """The lines of names above a panel: each curve with its place from the left."""
    lines: list[list[tuple[int, Curve]]] = [[]]
    x = 0
    for curve in curves:
        if not curve.name:
            continue
        wide = 21 + text_width(curve.name) + 16
        if lines[-1] and x + wide - 16 > SCALE + PLOT_WIDTH:
            lines.append([])
            x = 0
        lines[-1].append((x, curve))
        x += wide
    return lines


def _draw_names(canvas: Canvas, x: int, y: int, curves: Sequence[Curve]) -> None:
    for number, line in enumerate(_names(curves)):
        top = y + number * LINE
        for left, curve in line:
            at = x + left
            canvas.fill(at, top + 7, 8 if curve.dashed else 16, 3, curve.color)
            if curve.dashed:
                canvas.fill(at + 11, top + 7, 5, 3, curve.color)
            canvas.text(at + 21, top, elide(curve.name, SCALE + PLOT_WIDTH - 21))


def limits(panel: Panel) -> tuple[float, float]:
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


def round_numbers(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers within a range."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= rough)
    first, last = math.ceil(low / size), math.floor(high / size)
    return [round(number * size, 10) for number in range(first, last + 1)]


def _across(index: int, length: int) -> int:
    """Where a step is, from the left, in the enlarged plot."""
    return round((index + 0.5) * PLOT_WIDTH * FINE / length)


def _plot(panel: Panel, low: float, high: float) -> Image:
    """The lines, drawn larger and averaged, which makes them smooth."""
    length = len(panel.curves[0].values.value)
    width, height = PLOT_WIDTH * FINE, PLOT_HEIGHT * FINE

    def up(value: float) -> float:
        return (high - min(max(value, low), high)) / (high - low) * (height - 1)

    pixels = np.full((height, width, 3), PAPER, np.float64)
    for curve in panel.curves:
        if not curve.dashed:
            _shade(pixels, curve.values, curve.color, up)
    big = Canvas.of(pixels.astype(np.uint8))
    for value in round_numbers(low, high):
        big.line([(0, up(value)), (width, up(value))], FAINT, 1)
    if panel.zero:
        big.line([(0, up(0.0)), (width, up(0.0))], INK, FINE)
    for value in panel.levels.values():
        big.dashes([(0, up(value)), (width, up(value))], QUIET, 2 * FINE, DASH * FINE)
    for curve in sorted(panel.curves, key=lambda c: not c.dashed):
        points = [
            (float(_across(step, length)), up(value))
            for step, value in enumerate(curve.values.value.tolist())
            if math.isfinite(value)
        ]
        if curve.dashed:
            big.dashes(points, curve.color, 2 * FINE, DASH * FINE)
        elif len(points) > 1:
            big.line(points, curve.color, 2 * FINE)
        elif points:
            (x, y), *_ = points
            big.fill(round(x) - 6, round(y) - 6, 13, 13, curve.color)
    fine = big.pixels().reshape(PLOT_HEIGHT, FINE, PLOT_WIDTH, FINE, 3)
    smooth: Image = np.round(fine.mean((1, 3))).astype(np.uint8)
    smooth[[0, -1]] = smooth[:, [0, -1]] = FAINT
    return smooth


def _shade(pixels: Numbers, values: Estimate, color: Color, up: Callable[[float], float]) -> None:
    """The interval of a curve as a transparent band."""
    length = len(values.value)
    known = np.flatnonzero(np.isfinite(values.low) & np.isfinite(values.high))
    if len(known) < 2:
        return
    at = np.array([_across(step, length) for step in known.tolist()])
    columns = np.arange(at[0], at[-1] + 1)
    tops = np.interp(columns, at, [up(value) for value in values.high[known].tolist()])
    bottoms = np.interp(columns, at, [up(value) for value in values.low[known].tolist()])
    rows = np.arange(pixels.shape[0])[:, None]
    inside = (rows >= tops) & (rows <= bottoms)
    area = pixels[:, columns]
    area[inside] = 0.82 * area[inside] + 0.18 * np.array(color)
    pixels[:, columns] = area
