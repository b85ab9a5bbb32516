"""Observations without images: each number as a line over the time of an episode."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wmtk.viz.draw.canvas import BLUE, FAINT, GRAY, INK, Canvas, Color, Image, elide
from wmtk.viz.draw.episode_view import Lane
from wmtk.viz.draw.marks import plain

HEIGHT = 34  # of a lane, with the gap below it
INNER = 28
NAMES = 92  # pixels left of the lines for their names
SCALES = 64  # pixels right of the lines for their range
AXIS = 18  # pixels below the lanes for the steps
TICKS = 8  # at most
FINE = 3  # lines are drawn larger by this factor, then averaged, which makes them smooth
BACK: Color = (246, 247, 249)
ACTION: Color = (0, 121, 107)


def lanes_height(lanes: Sequence[Lane]) -> int:
    return HEIGHT * len(lanes) + AXIS


def lanes_span(x: int, width: int) -> tuple[int, int]:
    """The left edge and the width of the lines of lanes that begin at x."""
    return x + NAMES, width - NAMES - SCALES


def draw_lanes(
    canvas: Canvas, x: int, y: int, width: int, lanes: Sequence[Lane], *, end: Color
) -> None:
    """Draw lanes below each other; the right edge has the color of the episode's end."""
    left, span = lanes_span(x, width)
    length = len(lanes[0].values) - 1
    bottom = y + HEIGHT * len(lanes)
    for number, lane in enumerate(lanes):
        top = y + number * HEIGHT
        canvas.text(x, top + 8, elide(lane.name, NAMES - 8), size=12)
        canvas.paste(left, top, _curve(span, lane))
        canvas.text(left + span + 10, top, plain(lane.high), size=11, color=GRAY)
        if lane.high > lane.low:
            canvas.text(left + span + 10, top + INNER - 13, plain(lane.low), size=11, color=GRAY)
    for step in ticks(length):
        at = left + round(step * (span - 1) / length)
        canvas.fill(at, bottom - 5, 1, 5, GRAY)
        canvas.text(at, bottom, f"step {step}" if step == 0 else str(step), size=11, color=GRAY)
    canvas.fill(left + span, y, 4, HEIGHT * len(lanes) - 6, end)


def draw_cursor(
    canvas: Canvas, x: int, y: int, width: int, lanes: Sequence[Lane], step: int
) -> None:
    """Draw a vertical line at a step of lanes that were drawn at the same place."""
    left, span = lanes_span(x, width)
    at = left + round(step * (span - 1) / (len(lanes[0].values) - 1))
    canvas.fill(at - 1, y, 3, HEIGHT * len(lanes) - 6, INK)


def ticks(length: int) -> list[int]:
    """At most TICKS round steps from 0 on, and the last step."""
    sizes = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    size = next(size for size in sizes if size * TICKS >= length)
    return [*[step for step in range(0, length, size) if step <= length - 0.6 * size], length]


def _curve(width: int, lane: Lane) -> Image:
    """One line, between the lowest and the highest value of its lane."""
    big = Canvas(width * FINE, INNER * FINE, BACK)
    length = len(lane.values) - 1
    flat = lane.high == lane.low

    def place(step: int, value: float) -> tuple[float, float]:
        up = 0.5 if flat else (value - lane.low) / (lane.high - lane.low)
        return step * (width - 1) * FINE / length, (INNER - 4 - up * (INNER - 8)) * FINE

    if lane.low < 0 < lane.high:
        zero = place(0, 0.0)[1]
        big.line([(0, zero), (width * FINE, zero)], FAINT, FINE)
    points = [place(step, value) for step, value in enumerate(lane.values)]
    if lane.stepped:
        points = [corner for a, b in pairwise(points) for corner in ((a[0], b[1]), b)]
    big.line(points, ACTION if lane.stepped else BLUE, 5)
    return big.averaged(FINE)
