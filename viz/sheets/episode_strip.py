"""Frames of one episode, in reading order."""

from __future__ import annotations

from wmtk.viz.draw.canvas import FAINT, Canvas, Image
from wmtk.viz.draw.cells import CAPTION, Cells, draw_cell
from wmtk.viz.draw.episode_view import EpisodeView
from wmtk.viz.draw.legend import draw_legend, legend_height
from wmtk.viz.draw.marks import TIMELINE, draw_timeline, spread_steps
from wmtk.viz.sheets.contact_sheet import HEADER, MARGIN, NARROWEST, SheetRow, contact_sheet

COLUMNS = 8
FRAMES = 40


def episode_strip(
    row: SheetRow, view: EpisodeView, *, frames: int = FRAMES, title: str = "", subtitle: str = ""
) -> Image:
    """Frames from the first step to the last, in rows of up to eight."""
    if view.image is None:
        return contact_sheet([row], view, title=title, subtitle=subtitle)
    episode = row.episode
    steps = spread_steps(episode.length, frames).tolist()
    columns = min(COLUMNS, len(steps))
    cells = Cells.of(episode, view, COLUMNS)
    pitch = cells.height + CAPTION
    width = max(cells.span(columns), NARROWEST)
    below = HEADER + pitch * -(-len(steps) // columns)
    height = below + TIMELINE + 20 + legend_height(width, view) + MARGIN
    canvas = Canvas(width + 2 * MARGIN, height)
    canvas.heading(MARGIN, title, subtitle)
    for index, step in enumerate(steps):
        line, column = divmod(index, columns)
        x, y = MARGIN + column * cells.pitch, HEADER + line * pitch
        draw_cell(canvas, x, y, episode, step, view, cells)
    draw_timeline(canvas, MARGIN + 2, below + 4, width - 8, episode, dots=steps)
    canvas.fill(MARGIN, below + TIMELINE + 12, width, 1, FAINT)
    draw_legend(canvas, MARGIN, below + TIMELINE + 20, width, view)
    return canvas.pixels()
