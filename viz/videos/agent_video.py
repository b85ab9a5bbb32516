"""One episode of a policy: observations, reconstructions, values, and predicted rewards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmtk.collecting import EpisodeRecording
from wmtk.collecting.recording_policy import discounted_returns
from wmtk.datasets import Episode
from wmtk.viz.draw.canvas import (
    BLUE,
    FAINT,
    GRAY,
    LINE,
    ORANGE,
    Canvas,
    Image,
    elide,
    enlarge,
    text_width,
    to_rgb,
)
from wmtk.viz.draw.episode_view import EpisodeView, Lane
from wmtk.viz.draw.lanes import draw_cursor, draw_lanes, lanes_height
from wmtk.viz.draw.marks import END_COLORS, end_of
from wmtk.viz.draw.step_strip import draw_step_names, draw_step_numbers
from wmtk.viz.draw.traces import Trace, TraceChart

SIDE, ALONE = 320, 384  # approximate size of enlarged images: two beside each other, or one
MARGIN = 16
TITLE = 38
CAPTION = LINE + 6  # pixels above an image
BORDER = 3
GAP = 16
STRIP = 50  # pixels below the images for numbers
VALUE_LINES, REWARD_LINES = 96, 56
INNER = 2 * SIDE + GAP  # pixels between the margins, at least
NARROWEST = 408  # the same with a single image
RECORDED, PREDICTED = ORANGE, BLUE


def agent_frames(
    recording: EpisodeRecording, view: EpisodeView, *, title: str = ""
) -> Iterator[Image]:
    """T+1 frames of equal size, for `write_video`.

    On top are the observation and its reconstruction by the world model, or the observation as
    lines if it has no images. Below are the values of the critic with the discounted returns, and
    the rewards with the predicted ones. Policies without a world model have observations and
    rewards only.
    """
    layout = _AgentLayout.of(recording, view)
    background = layout.background(title)
    returns: NDArray[np.float64] = np.cumsum(recording.episode.reward, dtype=np.float64)
    for step in range(recording.episode.length + 1):
        yield layout.draw(background, step, float(returns[step]))


@dataclass(frozen=True)
class _ImagePanel:
    """An image for each step."""

    caption: str
    frames: NDArray[np.uint8]  # (T+1, H, W, C)
    x: int
    scale: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, enlarged."""
        height, width = self.frames.shape[1:3]
        return width * self.scale, height * self.scale


@dataclass(frozen=True)
class _AgentLayout:
    """The layout, which is the same in every frame."""

    episode: Episode
    view: EpisodeView
    panels: list[_ImagePanel]
    lanes: list[Lane]  # of the observation, where there are no images
    charts: list[TraceChart]
    strip: int  # the top of the numbers
    inner: int
    height: int

    @classmethod
    def of(cls, recording: EpisodeRecording, view: EpisodeView) -> _AgentLayout:
        episode = recording.episode
        panels, lanes = _panels(recording, view), []
        least = NARROWEST if len(panels) == 1 else INNER
        inner = max(least, *(panel.x + panel.size[0] - MARGIN for panel in panels), 0)
        if panels:
            body = CAPTION + max(panel.size[1] for panel in panels) + BORDER
        else:
            lanes = view.lanes([episode])[0]
            body = lanes_height(lanes)
        strip = TITLE + body + 10
        below = strip + STRIP
        charts = []
        for traces, lines in _traces(recording):
            charts.append(TraceChart(traces, MARGIN, below, inner, lines))
            below += charts[-1].height + 8
        return cls(episode, view, panels, lanes, charts, strip, inner, below + MARGIN - 8)

    def background(self, title: str) -> Image:
        """The parts that are the same at every step."""
        canvas = Canvas(self.inner + 2 * MARGIN, self.height)
        room = self.inner - text_width(end_of(self.episode)) - 20  # of the badge at the end
        canvas.text(MARGIN, 10, elide(title, room, 16), size=16)
        for panel in self.panels:
            canvas.text(panel.x, TITLE, elide(panel.caption, max(panel.size[0], 100)), color=GRAY)
            canvas.border(panel.x, TITLE + CAPTION, *panel.size, FAINT, 1)
        if self.lanes:
            end = END_COLORS[end_of(self.episode)]
            draw_lanes(canvas, MARGIN, TITLE, self.inner, self.lanes, end=end)
        draw_step_names(canvas, MARGIN, self.strip, self.inner)
        for chart in self.charts:
            chart.draw(canvas)
        return canvas.pixels()

    def draw(self, background: Image, step: int, total: float) -> Image:
        """The frame at a step, with the return up to it."""
        canvas, ended = Canvas.of(background), step == self.episode.length
        end = end_of(self.episode)
        for panel in self.panels:
            pixels = enlarge(to_rgb(panel.frames[step]), panel.scale)
            canvas.paste(panel.x, TITLE + CAPTION, pixels)
            if ended:
                area = panel.x, TITLE + CAPTION, *panel.size
                canvas.border(*area, END_COLORS[end], BORDER)
        if self.lanes:
            draw_cursor(canvas, MARGIN, TITLE, self.inner, self.lanes, step)
        if ended:
            canvas.badge(MARGIN + self.inner, 10, end, END_COLORS[end], right=True)
        draw_step_numbers(
            canvas, MARGIN, self.strip, self.inner, self.episode, step, total, self.view
        )
        for chart in self.charts:
            chart.draw_step(canvas, step)
        return canvas.pixels()


def _panels(recording: EpisodeRecording, view: EpisodeView) -> list[_ImagePanel]:
    """The observation and, beside it, the reconstruction if there is one."""
    key = view.image
    if key is None:
        return []
    both, observed = key in recording.reconstructions, recording.images.get(key)
    if observed is None:
        observed = view.images(recording.episode.obs[key])
    scale = max(1, round((SIDE if both else ALONE) / max(observed.shape[1:3])))
    panels = [_ImagePanel("observation", observed, MARGIN, scale)]
    if both:
        x = MARGIN + panels[0].size[0] + GAP
        panels.append(_ImagePanel("reconstruction", recording.reconstructions[key], x, scale))
    return panels


def _traces(recording: EpisodeRecording) -> list[tuple[list[Trace], int]]:
    """The lines of each chart, and its height in pixels."""
    reward = [Trace("reward", recording.episode.reward.astype(np.float64), RECORDED)]
    if recording.values is None or recording.rewards is None or recording.discount is None:
        return [(reward, REWARD_LINES)]
    if recording.true_rewards is not None:
        reward = [Trace("reward", recording.true_rewards, RECORDED)]
    returns = discounted_returns(
        recording.episode, recording.discount, recording.values, recording.true_rewards
    )
    value = [
        Trace("value (critic)", recording.values, PREDICTED),
        Trace(f"discounted return (γ = {recording.discount:g})", returns, RECORDED),
    ]
    reward.append(Trace("reward predicted by the model", recording.rewards, PREDICTED))
    return [(value, VALUE_LINES), (reward, REWARD_LINES)]
