"""One step of an episode as a frame with its caption."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmtk.datasets import Episode
from wmtk.viz.draw.canvas import FAINT, GRAY, LINE, Canvas, elide, text_width
from wmtk.viz.draw.episode_view import EpisodeView
from wmtk.viz.draw.marks import END_COLORS, end_of, reward_color, signed

BORDER = 4  # pixels around the last frame, in the color of the end
CAPTION = 3 * LINE + 8  # pixels below a frame: step and reward, action, end
NARROWEST = 120  # pixels of a cell, so that the caption fits
GAP = 12
ROW = 1100  # approximate width of the frames of a row, in pixels


@dataclass(frozen=True)
class Cells:
    """The sizes of a grid of frames, in pixels."""

    side: int  # approximate size of enlarged frames
    frame_width: int
    frame_height: int

    @classmethod
    def of(cls, episode: Episode, view: EpisodeView, columns: int) -> Cells:
        """The largest frames of which `columns` fit into a row."""
        side = int(np.clip(ROW // columns, NARROWEST, 256))
        height, width = view.frame(episode, 0, side).shape[:2]
        return cls(side, width, height)

    @property
    def height(self) -> int:
        """Height of a frame with its border."""
        return self.frame_height + 2 * BORDER

    @property
    def width(self) -> int:
        """Width of a frame with its border, or of the caption if that is wider."""
        return max(self.frame_width + 2 * BORDER, NARROWEST)

    @property
    def pitch(self) -> int:
        """Distance from one frame to the next."""
        return self.width + GAP

    @property
    def middle(self) -> int:
        """The middle of a frame, from the left edge of its cell."""
        return BORDER + self.frame_width // 2

    def span(self, count: int) -> int:
        """The width of `count` cells side by side."""
        return count * self.pitch - GAP


def draw_cell(
    canvas: Canvas, x: int, y: int, episode: Episode, step: int, view: EpisodeView, cells: Cells
) -> None:
    """Draw the frame of a step, with its number, reward, action and end below."""
    left, top = x + BORDER, y + BORDER
    area = left, top, cells.frame_width, cells.frame_height
    room = cells.width - 2 * BORDER
    canvas.border(*area, FAINT, 1)
    canvas.paste(left, top, view.frame(episode, step, cells.side))

    below = y + cells.height + 3
    reward = float(episode.reward[step])
    if reward:
        color = reward_color(reward)
        room_left = room - canvas.badge(left + room, below - 1, signed(reward), color, right=True)
    else:
        room_left = room
    label = f"step {step}"
    canvas.text(left, below, label if text_width(label) + 4 <= room_left else str(step))
    if step == 0:
        canvas.text(left, below + LINE, "reset", color=GRAY)
    else:
        view.actions.draw(canvas, left, below + LINE, room, episode.action[step])
    if step == episode.length:
        end = end_of(episode)
        canvas.border(*area, END_COLORS[end], BORDER)
        canvas.badge(left, below + 2 * LINE, elide(end, room - 10), END_COLORS[end])
