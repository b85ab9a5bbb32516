"""One episode as its policy lived it: what it saw, what its model made of it, what it expected."""

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
from wmtk.viz.draw.episode_view import Lane, View
from wmtk.viz.draw.lanes import draw_cursor, draw_lanes, lanes_height
from wmtk.viz.draw.marks import END_COLORS, end_of, plain, reward_color, signed
from wmtk.viz.draw.traces import Chart, Trace

SIDE, ALONE = 320, 384  # about what pictures are enlarged to: two beside each other, or one
MARGIN = 16
TITLE = 38
CAPTION = LINE + 6  # pixels above a picture
BORDER = 3
GAP = 16
STRIP = 50  # pixels below the pictures for numbers
VALUE_LINES, REWARD_LINES = 96, 56
INNER = 2 * SIDE + GAP  # pixels between the margins, at least
NARROWEST = 408  # the same, where there is one picture
REAL, BELIEVED = ORANGE, BLUE  # what happened, and what the agent made of it
# Where the columns of the strip begin, as fractions of its width.
COLUMNS = {"step": 0.0, "action": 0.25, "reward": 0.6, "return": 0.8}


def agent_frames(recording: EpisodeRecording, view: View, *, title: str = "") -> Iterator[Image]:
    """T+1 frames of equal size, for `write_video`.

    On top is what the policy saw, beside it what its world model took that for, or, where there
    are no pictures, the observation as lines. Below are its critic's values and the discounted
    returns that came, and the rewards, those that the model saw too. Of a policy without a world
    model there is only what it saw, and the rewards.
    """
    scene = _Scene.of(recording, view)
    background = scene.background(title)
    returns: NDArray[np.float64] = np.cumsum(recording.episode.reward, dtype=np.float64)
    for step in range(recording.episode.length + 1):
        yield scene.draw(background, step, float(returns[step]))


@dataclass(frozen=True)
class _Panel:
    """A picture for each step."""

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
class _Scene:
    """Where things are, the same in every frame."""

    episode: Episode
    view: View
    panels: list[_Panel]
    lanes: list[Lane]  # of the observation, where there are no pictures
    charts: list[Chart]
    strip: int  # the top of the numbers
    inner: int
    height: int

    @classmethod
    def of(cls, recording: EpisodeRecording, view: View) -> _Scene:
        episode = recording.episode
        panels, lanes = _panels(recording, view), []
        least = NARROWEST if len(panels) == 1 else INNER
        inner = max(least, *(panel.x + panel.size[0] - MARGIN for panel in panels), 0)
        if panels:
            shown = CAPTION + max(panel.size[1] for panel in panels) + BORDER
        else:
            lanes = view.lanes([episode])[0]
            shown = lanes_height(lanes)
        strip = TITLE + shown + 10
        below = strip + STRIP
        charts = []
        for traces, lines in _traces(recording):
            charts.append(Chart(traces, MARGIN, below, inner, lines))
            below += charts[-1].height + 8
        return cls(episode, view, panels, lanes, charts, strip, inner, below + MARGIN - 8)

    def _column(self, name: str) -> int:
        return MARGIN + round(COLUMNS[name] * self.inner)

    def background(self, title: str) -> Image:
        """What does not change from step to step."""
        canvas = Canvas(self.inner + 2 * MARGIN, self.height)
        room = self.inner - text_width(end_of(self.episode)) - 20  # of the badge at the end
        canvas.text(MARGIN, 10, elide(title, room, 16), size=16)
        for panel in self.panels:
            canvas.text(panel.x, TITLE, elide(panel.caption, max(panel.size[0], 100)), color=GRAY)
            canvas.border(panel.x, TITLE + CAPTION, *panel.size, FAINT, 1)
        if self.lanes:
            end = END_COLORS[end_of(self.episode)]
            draw_lanes(canvas, MARGIN, TITLE, self.inner, self.lanes, end=end)
        for name in COLUMNS:
            canvas.text(self._column(name), self.strip, name, size=12, color=GRAY)
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
        self._draw_numbers(canvas, step, total)
        for chart in self.charts:
            chart.draw_step(canvas, step)
        return canvas.pixels()

    def _draw_numbers(self, canvas: Canvas, step: int, total: float) -> None:
        episode, y = self.episode, self.strip + 17
        canvas.text(self._column("step"), y, f"{step} / {episode.length}", size=16)
        x = self._column("action")
        if step == 0:
            canvas.text(x, y, "reset", size=16, color=GRAY)
        else:
            room = self._column("reward") - x - 8
            self.view.actions.draw(canvas, x, y, room, episode.action[step], size=16)
        reward = float(episode.reward[step])
        if reward:
            canvas.badge(self._column("reward"), y + 1, signed(reward), reward_color(reward))
        else:
            canvas.text(self._column("reward"), y, "0", size=16, color=GRAY)
        canvas.text(self._column("return"), y, plain(total), size=16)


def _panels(recording: EpisodeRecording, view: View) -> list[_Panel]:
    """What was seen and, if there is one, the model's picture of it, beside each other."""
    key = view.image
    if key is None:
        return []
    both, seen = key in recording.reconstructions, recording.images.get(key)
    if seen is None:
        seen = view.pictures(recording.episode.obs[key])
    scale = max(1, round((SIDE if both else ALONE) / max(seen.shape[1:3])))
    panels = [_Panel("what the agent sees", seen, MARGIN, scale)]
    if both:
        x = MARGIN + panels[0].size[0] + GAP
        made = _Panel("what its world model makes of it", recording.reconstructions[key], x, scale)
        panels.append(made)
    return panels


def _traces(recording: EpisodeRecording) -> list[tuple[list[Trace], int]]:
    """The lines of each chart, and how high it is."""
    reward = [Trace("reward", recording.episode.reward.astype(np.float64), REAL)]
    if recording.values is None or recording.rewards is None or recording.discount is None:
        return [(reward, REWARD_LINES)]
    if recording.true_rewards is not None:
        reward = [Trace("reward", recording.true_rewards, REAL)]
    came = discounted_returns(
        recording.episode, recording.discount, recording.values, recording.true_rewards
    )
    value = [
        Trace("the critic's value", recording.values, BELIEVED),
        Trace(f"the return that came, discounted by {recording.discount:g}", came, REAL),
    ]
    reward.append(Trace("as its model sees it", recording.rewards, BELIEVED))
    return [(value, VALUE_LINES), (reward, REWARD_LINES)]
