"""One episode as a video: each frame with its step, action, reward and return below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Episode
from wmtk.viz.draw.canvas import FAINT, GRAY, Canvas, Image, elide, text_width
from wmtk.viz.draw.episode_view import EpisodeView, Lane
from wmtk.viz.draw.lanes import draw_cursor, draw_lanes, lanes_height
from wmtk.viz.draw.marks import END_COLORS, TIMELINE, draw_timeline, end_of
from wmtk.viz.draw.step_strip import draw_step_names, draw_step_numbers

SIDE = 384  # approximate size of enlarged images
MARGIN = 16
TITLE = 36
BORDER = 4
STRIP = 54  # pixels below the image for numbers
NARROWEST = 408  # pixels, for the numbers
PLOT = 640


@dataclass(frozen=True)
class _EpisodeLayout:
    """The layout, which is the same in every frame."""

    episode: Episode
    view: EpisodeView
    lanes: list[Lane]  # empty if there are images
    scale: int | None
    width: int  # of the image
    height: int
    inner: int  # width without the margins

    @classmethod
    def of(cls, episode: Episode, view: EpisodeView, scale: int | None) -> _EpisodeLayout:
        if view.image is None:
            lanes = view.lanes([episode])[0]
            return cls(episode, view, lanes, scale, PLOT, lanes_height(lanes), PLOT)
        height, width = view.frame(episode, 0, SIDE, scale).shape[:2]
        inner = max(width + 2 * BORDER, NARROWEST)
        return cls(episode, view, [], scale, width, height, inner)

    @property
    def left(self) -> int:
        """The left edge of the image, which is centered."""
        return MARGIN + (self.inner - self.width) // 2

    @property
    def strip(self) -> int:
        """The top of the numbers."""
        return TITLE + self.height + BORDER + 8

    def background(self, title: str) -> Image:
        """Title, names and frame, which are the same at every step."""
        full = self.strip + STRIP + TIMELINE + MARGIN
        canvas = Canvas(self.inner + 2 * MARGIN, full)
        room = self.inner - text_width(end_of(self.episode)) - 20  # of the badge at the end
        canvas.text(MARGIN, 10, elide(title, room), color=GRAY)
        draw_step_names(canvas, MARGIN, self.strip, self.inner)
        if self.lanes:
            end = END_COLORS[end_of(self.episode)]
            draw_lanes(canvas, self.left, TITLE, self.width, self.lanes, end=end)
        else:
            canvas.border(self.left, TITLE, self.width, self.height, FAINT, 1)
        return canvas.pixels()

    def draw(self, background: Image, step: int, total: float) -> Image:
        """The frame at a step, with the return up to it."""
        canvas, episode = Canvas.of(background), self.episode
        if self.lanes:
            draw_cursor(canvas, self.left, TITLE, self.width, self.lanes, step)
        else:
            pixels = self.view.frame(episode, step, SIDE, self.scale)
            canvas.paste(self.left, TITLE, pixels)
        draw_step_numbers(canvas, MARGIN, self.strip, self.inner, episode, step, total, self.view)
        draw_timeline(canvas, MARGIN, self.strip + STRIP, self.inner - 6, episode, now=step)
        if step == episode.length:
            end = end_of(episode)
            canvas.badge(MARGIN + self.inner, 8, end, END_COLORS[end], right=True)
            if not self.lanes:
                area = self.left, TITLE, self.width, self.height
                canvas.border(*area, END_COLORS[end], BORDER)
        return canvas.pixels()


def episode_frames(
    episode: Episode, view: EpisodeView, *, scale: int | None = None, title: str = ""
) -> Iterator[Image]:
    """T+1 frames of equal size: the image at each step, numbers below it, the end marked.

    Images are enlarged `scale` times, or to about SIDE pixels. Without images the
    observation is drawn as lines, with a cursor.
    """
    layout = _EpisodeLayout.of(episode, view, scale)
    background = layout.background(title)
    returns: NDArray[np.float64] = np.cumsum(episode.reward, dtype=np.float64)
    for step in range(episode.length + 1):
        yield layout.draw(background, step, float(returns[step]))
