"""Rollouts as a video, side by side: the truth above the model's frames above the error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmtk.viz.draw.canvas import GRAY, LINE, PAPER, Canvas, Image, elide, text_width
from wmtk.viz.draw.rollout_panels import (
    BORDER,
    IMAGINED,
    OBSERVED,
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

MARGIN = 16
TITLE = 40
HEAD = LINE + 4  # pixels above a column, for its title
NAMES = 72  # pixels left of the images for the names of rows
GAP = 14
WIDE = 1040  # approximate width of the images of a row, in pixels
SMALLEST, LARGEST = 128, 256  # limits of enlarged images, in pixels
TALL = 900  # pixels that the images of a column may take
PLOT = 420  # pixels of a column without images
CHART = 236  # least width of a column in pixels, for the ticks of its charts
KEY = 3 * LINE
ACTION = 90  # pixels right of the title of a column, for the name of the action


def rollout_frames(
    rollouts: Sequence[Rollout], image: str | None, *, title: str = ""
) -> Iterator[Image]:
    """A frame for each row of the longest rollout; shorter ones stop at their last row."""
    assert rollouts, "nothing to draw"
    layout = _RolloutLayout(rollouts, image)
    background = layout.background(title)
    for row in range(max(rollout.rows for rollout in rollouts)):
        yield layout.draw(background, row)


class _RolloutLayout:
    """The layout, which is the same in every frame."""

    def __init__(self, rollouts: Sequence[Rollout], image: str | None) -> None:
        self.rollouts = list(rollouts)
        self.image_rows = [list(image_rows(r, image)) if image else [] for r in rollouts]
        self.scale, high, inner = 1, 0, PLOT
        names = NAMES if image else 0
        if image:
            height, width = rollouts[0].truth[image].shape[1:3]
            lines = len(self.image_rows[0])
            side = min(LARGEST, max(SMALLEST, WIDE // len(rollouts)), TALL // lines)
            self.scale = max(1, side // max(height, width))
            high, inner = height * self.scale + 2 * BORDER + 6, max(CHART, width * self.scale)
        self.high = high
        self.pitch = inner + 2 * BORDER + GAP
        self.left = MARGIN + names
        self.below = TITLE + HEAD + high * len(self.image_rows[0]) + 4
        self.charts = [
            stack_charts(
                ([] if image else number_traces(rollout)) + chart_traces(rollout),
                self.left + number * self.pitch,
                self.below,
                inner,
            )
            for number, rollout in enumerate(rollouts)
        ]
        foot = self.below + sum(chart.height + 4 for chart in self.charts[0])
        self.foot = foot + 6
        self.width = max(self.left + len(rollouts) * self.pitch + MARGIN - GAP, 560)
        self.items = legend(self.rollouts, images=image is not None)

    def background(self, title: str) -> Image:
        canvas = Canvas(self.width, self.foot + KEY)
        used = draw_key(canvas, MARGIN, self.foot, self.items)
        canvas = Canvas(self.width, self.foot + used + MARGIN // 2)
        draw_key(canvas, MARGIN, self.foot, self.items)
        canvas.text(MARGIN, 10, elide(title, self.width - 2 * MARGIN - 200, 16), size=16)
        for number, rollout in enumerate(self.rollouts):
            x = self.left + number * self.pitch
            room = self.pitch - (ACTION if rollout.actions else 8)
            canvas.text(x, TITLE, elide(rollout.title, room, 12), size=12, color=GRAY)
            for chart in self.charts[number]:
                draw_chart(canvas, chart, rollout)
        for line, (name, _) in enumerate(self.image_rows[0]):
            y = TITLE + HEAD + line * self.high + self.high // 2 - LINE
            canvas.text(MARGIN, y, elide(name, NAMES - 6))
        return canvas.pixels()

    def draw(self, background: Image, row: int) -> Image:
        canvas = Canvas.of(background)
        self._draw_phase(canvas, row)
        for number, rollout in enumerate(self.rollouts):
            step = min(row, rollout.rows - 1)
            x = self.left + number * self.pitch
            color = phase_color(rollout, step) if row < rollout.rows else GRAY
            for line, (_, frames) in enumerate(self.image_rows[number]):
                y = TITLE + HEAD + line * self.high + BORDER
                exists = step < len(frames)  # a dream has no truth after the context
                frame = frames[step if exists else -1]
                draw_frame(canvas, x, y, frame, self.scale, color if exists else GRAY)
            if rollout.actions:
                self._draw_action(canvas, x, rollout.actions[step])
            for chart in self.charts[number]:
                draw_names(canvas, chart, step)
        return canvas.pixels()

    def _draw_action(self, canvas: Canvas, x: int, action: str) -> None:
        """Draw the name of an action above a column, at its right end."""
        text = elide(action, ACTION - 16, 12)
        canvas.text(x + self.pitch - GAP - text_width(text, 12) - 4, TITLE, text, size=12)

    def _draw_phase(self, canvas: Canvas, row: int) -> None:
        """Draw whether the row is observed or imagined, and its number, at the top right."""
        rollout = max(self.rollouts, key=lambda r: r.rows)
        ahead = row - rollout.context + 1
        if ahead > 0:
            text, color = f"imagined +{ahead} of {rollout.rows - rollout.context}", IMAGINED
        else:
            text, color = f"observed {row + 1} of {rollout.context}", OBSERVED
        right = self.width - MARGIN
        canvas.fill(right - text_width(text) - 12, 8, text_width(text) + 12, LINE, PAPER)
        canvas.badge(right, 10, text, color, right=True)
