"""Several numbers over the time of an episode, as lines of one small chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from wmtk.viz.draw.canvas import FAINT, GRAY, INK, LINE, Canvas, Color, Image, text_width
from wmtk.viz.draw.lanes import BACK, FINE, ticks
from wmtk.viz.draw.marks import plain

SCALES = 52  # pixels right of the lines for their range
AXIS = 18  # pixels below the lines for the steps
NAMES = LINE + 6  # pixels above the lines for their names and numbers
SWATCH = 11
GAP = 26  # between names
EDGE = 4  # pixels above the highest and below the lowest number


@dataclass(frozen=True)
class Trace:
    """One number at each of the T+1 states of an episode."""

    name: str
    values: NDArray[np.float64]
    color: Color


@dataclass(frozen=True)
class TraceChart:
    """Lines on one scale, the first one on top, at a place of a canvas."""

    traces: Sequence[Trace]
    x: int
    y: int
    width: int  # of the whole chart
    lines: int  # pixels, the height of the lines alone
    least: tuple[float, float] = (0.0, 0.0)  # the range that the scale includes

    @property
    def height(self) -> int:
        """Height of the whole chart."""
        return NAMES + self.lines + AXIS

    @property
    def _span(self) -> int:
        return self.width - SCALES

    @property
    def _top(self) -> int:
        return self.y + NAMES

    @property
    def _length(self) -> int:
        return len(self.traces[0].values) - 1

    @cached_property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest number; zero is always on the chart."""
        values = np.concatenate([*(trace.values for trace in self.traces), self.least])
        finite = values[np.isfinite(values)]
        return float(finite.min(initial=0.0)), float(finite.max(initial=0.0))

    def draw(self, canvas: Canvas) -> None:
        """Draw lines, range and ticks, which are the same at every step."""
        low, high = self.range
        right = self.x + self._span + 8
        canvas.paste(self.x, self._top, self._curves(low, high))
        canvas.text(right, self._top - 2, self._text(high), size=11, color=GRAY)
        if high > low:
            lowest = self._text(low)
            canvas.text(right, self._top + self.lines - 13, lowest, size=11, color=GRAY)
        bottom = self._top + self.lines
        for step in ticks(self._length):
            at = self._at(step)
            canvas.fill(at, bottom, 1, 4, GRAY)
            text = f"step {step}" if step == 0 else str(step)
            canvas.text(at, bottom + 3, text, size=11, color=GRAY)

    def draw_step(self, canvas: Canvas, step: int) -> None:
        """Draw a cursor at a step, and the numbers there beside the names of the lines."""
        canvas.fill(self._at(step) - 1, self._top, 2, self.lines, INK)
        x = self.x
        # A fixed width for numbers, so that names do not move from step to step.
        widest = max(text_width(self._text(value)) for value in self.range)
        for trace in self.traces:
            canvas.fill(x, self.y + 3, SWATCH, SWATCH, trace.color)
            x += SWATCH + 6
            canvas.text(x, self.y, trace.name, color=GRAY)
            x += text_width(trace.name) + 7
            canvas.text(x, self.y, self._text(float(trace.values[step])))
            x += widest + GAP

    def _text(self, value: float) -> str:
        """A number with as many digits as the resolution of the chart."""
        low, high = self.range
        largest = max(-low, high)
        if not largest or not 1e-6 < largest < 1e6:
            return plain(value + 0.0)  # no minus before a zero
        digits = max(0, 2 - math.floor(math.log10(largest)))
        text = f"{value:.{digits}f}"
        return text.replace("-", "−") if float(text) else "0"

    def _at(self, step: int) -> int:
        return self.x + round(step * (self._span - 1) / self._length)

    def _curves(self, low: float, high: float) -> Image:
        big = Canvas(self._span * FINE, self.lines * FINE, BACK)
        room = self.lines - 2 * EDGE

        def place(step: int, value: float) -> tuple[float, float]:
            inside = float(np.clip(np.nan_to_num(value), low, high))
            up = (inside - low) / (high - low) if high > low else 0.5
            x = step * (self._span - 1) * FINE / self._length
            return x, (self.lines - EDGE - up * room) * FINE

        zero = place(0, 0.0)[1]
        big.line([(0, zero), (self._span * FINE, zero)], FAINT, FINE)
        for trace in reversed(self.traces):
            points = [
                place(step, value)
                for step, value in enumerate(trace.values.tolist())
                if not math.isnan(value)  # unknown
            ]
            big.line(points, trace.color, 2 * FINE - 1)
        return big.averaged(FINE)
