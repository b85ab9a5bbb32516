"""Rollouts as an image: rows for the truth, the model and the error, columns for steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from wmtk.viz.draw.canvas import FAINT, LINE, Canvas, Image, elide
from wmtk.viz.draw.rollout_panels import (
    BORDER,
    chart_traces,
    draw_chart,
    draw_frame,
    draw_key,
    draw_names,
    image_rows,
    legend,
    number_traces,
    phase_color,
    stack_charts,
)
from wmtk.viz.rollouts import Rollout

MARGIN = 20
HEADER = 66
NAMES = 84  # pixels left of the frames for the names of rows
GAP = 6
SIDE = 128  # approximate size of enlarged frames
CAPTION = LINE + 2
HEAD = 26  # pixels above a rollout, for its title
BELOW = 22  # pixels between rollouts
PLOT = 900  # pixels for the lines of observations without images
KEY = 2 * LINE + 16
NARROWEST = 760
OBSERVED_COLUMNS = 4  # at most, of observed rows


def sheet_rows(rollout: Rollout, columns: int) -> NDArray[np.int64]:
    """The rows to draw as columns: the last observed ones, then imagined ones, evenly spaced."""
    if rollout.context >= rollout.rows:
        return np.unique(np.round(np.linspace(0, rollout.rows - 1, columns)).astype(np.int64))
    observed = min(OBSERVED_COLUMNS, rollout.context, max(1, columns // 3))
    ahead = np.linspace(rollout.rows - 1, rollout.context, columns - observed)  # the last at least
    before = np.arange(rollout.context - observed, rollout.context)
    return np.unique(np.concatenate([before, np.round(ahead)]).astype(np.int64))


def rollout_sheet(
    rollouts: Sequence[Rollout],
    image: str | None,
    *,
    columns: int = 12,
    title: str = "",
    subtitle: str = "",
) -> Image:
    """All rollouts below each other; without an image key their numbers are drawn as lines."""
    assert rollouts, "nothing to draw"
    blocks = [_RolloutBlock(rollout, image, columns) for rollout in rollouts]
    width = max(NARROWEST, *(block.width for block in blocks)) + 2 * MARGIN
    height = HEADER + sum(block.height + BELOW for block in blocks) + KEY
    canvas = Canvas(width, height)
    canvas.heading(MARGIN, title, subtitle)
    y = HEADER
    for block in blocks:
        canvas.fill(MARGIN, y - 4, width - 2 * MARGIN, 1, FAINT)
        block.draw(canvas, y)
        y += block.height + BELOW
    canvas.fill(MARGIN, y - 8, width - 2 * MARGIN, 1, FAINT)
    draw_key(canvas, MARGIN, y, legend(list(rollouts), images=image is not None))
    return canvas.pixels()


class _RolloutBlock:
    """The layout of one rollout in a sheet."""

    def __init__(self, rollout: Rollout, image: str | None, columns: int) -> None:
        self.rollout = rollout
        self.steps = sheet_rows(rollout, columns).tolist() if image else []
        self.image_rows = list(image_rows(rollout, image)) if image else []
        lines = ([] if image else number_traces(rollout)) + chart_traces(rollout)
        self.scale, self.pitch = 1, (0, 0)
        if self.image_rows:
            high, wide = self.image_rows[0][1].shape[1:3]
            self.scale = max(1, round(SIDE / max(high, wide)))
            self.pitch = (
                high * self.scale + 2 * BORDER + GAP,
                wide * self.scale + 2 * BORDER + GAP,
            )
        inner = len(self.steps) * self.pitch[1] if self.image_rows else PLOT
        self.width = NAMES + inner
        self.grid = len(self.image_rows) * self.pitch[0] + (CAPTION if self.image_rows else 0)
        left = MARGIN + NAMES
        self._charts = stack_charts(lines, left, HEAD + self.grid + 4, inner)
        self.height = HEAD + self.grid + 4 + sum(chart.height + 4 for chart in self._charts)

    def draw(self, canvas: Canvas, y: int) -> None:
        rollout = self.rollout
        canvas.text(MARGIN, y + 2, rollout.title, size=15)
        left, (high, wide) = MARGIN + NAMES, self.pitch
        for line, (name, frames) in enumerate(self.image_rows):
            top = y + HEAD + line * high
            canvas.text(MARGIN, top + high // 2 - LINE, elide(name, NAMES - 8))
            for column, step in enumerate(self.steps):
                if step >= len(frames):
                    break  # a dream has no truth after the context
                x = left + column * wide + BORDER
                color = phase_color(rollout, step)
                draw_frame(canvas, x, top + BORDER, frames[step], self.scale, color)
        for column, step in enumerate(self.steps):
            x = left + column * wide + BORDER
            caption = elide(self._caption(step), wide - 4)
            canvas.text(x, y + HEAD + len(self.image_rows) * high - 2, caption)
        for group in self._charts:
            chart = replace(group, y=y + group.y)
            draw_chart(canvas, chart, rollout)
            draw_names(canvas, chart)

    def _caption(self, step: int) -> str:
        if self.rollout.context == self.rollout.rows:
            return f"step {step}"
        ahead = step - self.rollout.context + 1
        if ahead <= 0:
            return f"obs {step + 1}"
        action = f"  {self.rollout.actions[step]}" if self.rollout.actions else ""
        return f"+{ahead}{action}"
