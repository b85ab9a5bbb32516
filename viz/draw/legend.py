"""The legend at the foot of a contact sheet."""

from __future__ import annotations

from collections.abc import Iterator

from wmtk.viz.draw.canvas import GREEN, INK, LINE, RED, Canvas, Color, text_width
from wmtk.viz.draw.episode_view import EpisodeView
from wmtk.viz.draw.marks import END_COLORS, END_MEANINGS

SWATCH = 14
GAP = 26


def legend_items(view: EpisodeView) -> list[tuple[Color | None, str]]:
    """Colors with their meanings, and explanations without a color."""
    items: list[tuple[Color | None, str]] = []
    if view.image is None:
        items.append((None, "Each line is one number over the episode, on one scale in all rows."))
    else:
        below = "Below a frame: its step, the reward on arriving there, the action that led there"
        bars = " (a bar for each number, up is positive)" if view.actions.continuous else ""
        items.append((None, f"{below}{bars}."))
        line = "The line is the whole episode with all its rewards, a dot for each frame."
        items.append((None, line))
    items += [(GREEN, "positive reward"), (RED, "negative reward")]
    items += [(END_COLORS[end], f"{end}: {meaning}") for end, meaning in END_MEANINGS.items()]
    return items


def _placed(width: int, view: EpisodeView) -> Iterator[tuple[int, int, Color | None, str]]:
    """The position of each item: from left to right, with colored items on separate lines."""
    x = y = 0
    colored = False
    for color, text in legend_items(view):
        needed = text_width(text) + (SWATCH + 6 if color else 0)
        if x and (x + needed > width or (color is not None) != colored):
            x, y = 0, y + LINE + 4
        colored = color is not None
        yield x, y, color, text
        x += needed + GAP


def legend_height(width: int, view: EpisodeView) -> int:
    return max(y for _, y, _, _ in _placed(width, view)) + LINE + 10


def draw_legend(canvas: Canvas, x: int, y: int, width: int, view: EpisodeView) -> None:
    for dx, dy, color, text in _placed(width, view):
        if color is not None:
            canvas.fill(x + dx, y + dy + 1, SWATCH, SWATCH, color)
        canvas.text(x + dx + (SWATCH + 6 if color else 0), y + dy, text, color=INK)
