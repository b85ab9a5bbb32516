"""Marks of rewards, of the end, and of the current step of an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Episode
from wmtk.viz.draw.canvas import (
    BLUE,
    FAINT,
    GRAY,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    RED,
    Canvas,
    Color,
)

END_COLORS: dict[str, Color] = {
    "terminated": PURPLE,
    "truncated": BLUE,
    "terminated, truncated": PURPLE,
    "cut": ORANGE,
}
END_MEANINGS = {
    "terminated": "the task ended",
    "truncated": "ended by a time limit or from outside",
    "cut": "the recording ends here, the episode went on",
}
TIMELINE = 21  # pixels high: ten above the line, ten below it


def end_of(episode: Episode) -> str:
    """How an episode ends, as a key of END_COLORS."""
    flags = {"terminated": episode.terminated, "truncated": episode.truncated}
    return ", ".join(name for name, is_set in flags.items() if is_set) or "cut"


def signed(value: float) -> str:
    """A number with its sign and about three digits; zero without a sign."""
    if not value:
        return "0"
    text = f"{value:+.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:+.3g}"
    return text.replace("-", "−")


def plain(value: float) -> str:
    """A number with about four digits, with a sign only if it is negative."""
    text = f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"
    return text.replace("-", "−")


def reward_color(reward: float) -> Color:
    return GREEN if reward > 0 else RED


def spread_steps(length: int, count: int) -> NDArray[np.int64]:
    """`count` steps spread evenly over 0 … length, with both ends; all steps if there are fewer."""
    assert length >= 1, length
    assert count >= 2, count
    return np.round(np.linspace(0, length, min(count, length + 1))).astype(np.int64)


def draw_timeline(
    canvas: Canvas,
    x: int,
    y: int,
    width: int,
    episode: Episode,
    *,
    dots: Sequence[int] = (),
    now: int | None = None,
) -> None:
    """Draw an episode as a line: rewards up in green or down in red, the end in its color.

    `dots` are steps to mark; `now` is the step up to which the line is dark.
    """
    half = TIMELINE // 2
    largest = float(np.abs(episode.reward).max()) or 1.0

    def at(step: int) -> int:
        return x + round(step * (width - 1) / max(episode.length, 1))

    canvas.fill(x, y + half, width, 1, FAINT if now is not None else GRAY)
    if now is not None:
        canvas.fill(x, y + half - 1, at(now) - x + 1, 3, INK)
    for step in np.flatnonzero(episode.reward).tolist():
        reward = float(episode.reward[step])
        rise = max(3, round(abs(reward) / largest * half))
        top = y + half - rise if reward > 0 else y + half + 1
        canvas.fill(at(step) - 1, top, 2, rise, reward_color(reward))
    for step in dots:
        canvas.fill(at(step) - 2, y + half - 2, 5, 5, INK)
    if now is not None:
        canvas.fill(at(now) - 1, y, 3, TIMELINE, INK)
    canvas.fill(x + width + 2, y, 4, TIMELINE, END_COLORS[end_of(episode)])
