"""Contact sheets: frames of several episodes of a dataset in one image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wmtk.datasets import Dataset, Episode, EpisodeTable
from wmtk.errors import DatasetError
from wmtk.viz.draw.canvas import FAINT, GRAY, LINE, Canvas, Image, elide, wrap
from wmtk.viz.draw.cells import CAPTION, Cells, draw_cell
from wmtk.viz.draw.episode_view import MAX_LANES, EpisodeView, Lane, view_of
from wmtk.viz.draw.lanes import draw_lanes, lanes_height, lanes_span
from wmtk.viz.draw.legend import draw_legend, legend_height
from wmtk.viz.draw.marks import END_COLORS, TIMELINE, draw_timeline, end_of, plain, spread_steps

MARGIN = 20
HEADER = 62
LABEL = 148  # pixels left of a row, for its label
ROW_GAP = 22
NARROWEST = 720  # pixels, for the legend
PLOT = 900  # pixels for the lines of a dataset without images


@dataclass(frozen=True)
class Choice:
    """The index of an episode in the dataset, and the reason for choosing it."""

    episode: int
    why: str


@dataclass(frozen=True)
class SheetRow:
    """An episode to draw, with its index and the reason for choosing it."""

    number: int
    why: str
    episode: Episode


@dataclass(frozen=True)
class ContactSheet:
    pixels: Image
    choices: tuple[Choice, ...]
    image: str | None  # the image key; None if lines are drawn


def choose_episodes(table: EpisodeTable, count: int, seed: int = 0) -> list[Choice]:
    """First, last, best, worst and then random episodes, in the dataset's order."""
    total, returns = len(table), table.total_reward
    if not total:
        return []
    reasons: dict[int, list[str]] = {0: ["first"]}
    reasons.setdefault(total - 1, []).append("last")
    if returns.min() < returns.max():
        reasons.setdefault(int(returns.argmax()), []).append("best")
        reasons.setdefault(int(returns.argmin()), []).append("worst")
    for index in np.random.default_rng(seed).permutation(total).tolist():
        if index not in reasons:
            reasons[index] = ["random"] if count < total else []
    chosen = sorted(list(reasons)[:count])
    return [Choice(index, ", ".join(reasons[index])) for index in chosen]


def dataset_sheet(
    dataset: Dataset,
    *,
    episodes: int = 6,
    frames: int = 8,
    seed: int = 0,
    image: str | None = None,
) -> ContactSheet:
    """A sheet of `episodes` chosen episodes, with `frames` frames of each."""
    view = view_of(dataset, image)
    choices = choose_episodes(dataset.episodes, episodes, seed)
    if not choices:
        raise DatasetError(
            f"{dataset.path} has no episode to show.", "Collect episodes first.", dataset.path
        )
    rows = [SheetRow(choice.episode, choice.why, dataset[choice.episode]) for choice in choices]
    pixels = contact_sheet(
        rows,
        view,
        frames=frames,
        title=dataset.path.resolve().name,
        subtitle=describe(dataset, view),
    )
    return ContactSheet(pixels, tuple(choices), view.image)


def describe(dataset: Dataset, view: EpisodeView) -> str:
    """A line that describes a dataset: task, size, and the observation key in the images."""
    env = dataset.env
    task = str(env.get("env_id") or env.get("id") or "unknown task")
    episodes = "1 episode" if len(dataset) == 1 else f"{len(dataset):,} episodes"
    parts = [task, episodes, f"{dataset.num_steps:,} steps"]
    if view.image is not None:
        size = "×".join(map(str, dataset.schema.obs[view.image].shape))
        parts.append(f"{view.image} {size}")
        if view.other_images:
            parts.append(f"not shown: {', '.join(view.other_images)}")
    else:
        numbers = sum(math.prod(spec.shape) for spec in dataset.schema.obs.values())
        if numbers > MAX_LANES:
            parts.append(f"the first {MAX_LANES} of {numbers:,} numbers")
    return "  ·  ".join(parts)


def contact_sheet(
    rows: Sequence[SheetRow],
    view: EpisodeView,
    *,
    frames: int = 8,
    title: str = "",
    subtitle: str = "",
) -> Image:
    """One row for each episode: frames from the first to the last, or lines without images."""
    if view.image is None:
        lanes = view.lanes([row.episode for row in rows])
        width, height = PLOT, lanes_height(lanes[0]) + TIMELINE
    else:
        lanes = []
        most = min(frames, max(row.episode.length for row in rows) + 1)
        cells = Cells.of(rows[0].episode, view, most)
        width, height = cells.span(most), cells.height + CAPTION + TIMELINE
    pitch = height + ROW_GAP
    full = max(LABEL + width, NARROWEST) + 2 * MARGIN
    below = HEADER + pitch * len(rows)
    canvas = Canvas(full, below + legend_height(full - 2 * MARGIN, view) + MARGIN)
    canvas.heading(MARGIN, title, subtitle)
    for index, row in enumerate(rows):
        y = HEADER + index * pitch
        canvas.fill(MARGIN, y - 2, full - 2 * MARGIN, 1, FAINT)
        draw_label(canvas, MARGIN, y + 8, row, with_end=view.image is None)
        if view.image is None:
            _draw_plot(canvas, MARGIN + LABEL, y + 10, width, row.episode, lanes[index])
        else:
            _draw_frames(canvas, MARGIN + LABEL, y + 10, row.episode, view, cells, frames)
    canvas.fill(MARGIN, below - 2, full - 2 * MARGIN, 1, FAINT)
    draw_legend(canvas, MARGIN, below + 10, full - 2 * MARGIN, view)
    return canvas.pixels()


def draw_label(canvas: Canvas, x: int, y: int, row: SheetRow, *, with_end: bool) -> None:
    """Draw the label of a row: index, reason, length, return and policy of the episode."""
    episode, width = row.episode, LABEL - 14
    canvas.text(x, y, f"episode {row.number}", size=17)
    steps = "1 step" if episode.length == 1 else f"{episode.length:,} steps"
    lines = [steps, f"return {plain(episode.total_reward)}"]
    provenance = episode.provenance
    lines += wrap(f"policy {provenance.policy or 'unknown'}", width)
    if provenance.checkpoint:
        lines.append(f"weights {provenance.checkpoint[:8]}")
    y += 26
    if row.why:
        canvas.badge(x, y, elide(row.why, width - 10), GRAY)
        y += LINE + 4
    for line in lines:
        canvas.text(x, y, elide(line, width))
        y += LINE
    if with_end:
        end = end_of(episode)
        canvas.badge(x, y + 4, elide(end, width - 10), END_COLORS[end])


def _draw_frames(
    canvas: Canvas, x: int, y: int, episode: Episode, view: EpisodeView, cells: Cells, count: int
) -> None:
    steps = spread_steps(episode.length, count).tolist()
    for column, step in enumerate(steps):
        draw_cell(canvas, x + column * cells.pitch, y, episode, step, view, cells)
    # From the middle of the first frame to that of the last: each dot is below its frame.
    first, last = cells.middle, (len(steps) - 1) * cells.pitch + cells.middle
    top = y + cells.height + CAPTION
    draw_timeline(canvas, x + first, top, last - first + 1, episode, dots=steps)


def _draw_plot(
    canvas: Canvas, x: int, y: int, width: int, episode: Episode, lanes: Sequence[Lane]
) -> None:
    draw_lanes(canvas, x, y, width, lanes, end=END_COLORS[end_of(episode)])
    left, span = lanes_span(x, width)
    top = y + lanes_height(lanes)
    canvas.text(x, top + 2, "reward", size=12)
    draw_timeline(canvas, left, top, span, episode)
