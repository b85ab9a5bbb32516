"""The numbers of one step of an episode, below the frames of videos."""

from __future__ import annotations

from wmtk.datasets import Episode
from wmtk.viz.draw.canvas import GRAY, Canvas
from wmtk.viz.draw.episode_view import EpisodeView
from wmtk.viz.draw.marks import plain, reward_color, signed

# Left edges of the columns, as fractions of the width.
COLUMNS = {"step": 0.0, "action": 0.25, "reward": 0.61, "return": 0.81}
BELOW = 18  # pixels from the names to the numbers
SIZE = 16


def column(name: str, x: int, width: int) -> int:
    return x + round(COLUMNS[name] * width)


def draw_step_names(canvas: Canvas, x: int, y: int, width: int) -> None:
    """Draw the names of the columns."""
    for name in COLUMNS:
        canvas.text(column(name, x, width), y, name, size=12, color=GRAY)


def draw_step_numbers(
    canvas: Canvas,
    x: int,
    y: int,
    width: int,
    episode: Episode,
    step: int,
    total: float,
    view: EpisodeView,
) -> None:
    """Draw step, action, reward, and the return up to the step, below the names."""
    y += BELOW
    step_x, action_x, reward_x, return_x = (column(name, x, width) for name in COLUMNS)
    canvas.text(step_x, y, f"{step} / {episode.length}", size=SIZE)
    if step == 0:
        canvas.text(action_x, y, "reset", size=SIZE, color=GRAY)
    else:
        room = reward_x - action_x - 8
        view.actions.draw(canvas, action_x, y, room, episode.action[step], size=SIZE)
    reward = float(episode.reward[step])
    if reward:
        canvas.badge(reward_x, y + 1, signed(reward), reward_color(reward))
    else:
        canvas.text(reward_x, y, "0", size=SIZE, color=GRAY)
    canvas.text(return_x, y, plain(total), size=SIZE)
