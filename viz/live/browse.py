"""Datasets for the page: lists of episodes, their steps and their images."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from wmtk.datasets import Episode, Provenance, select
from wmtk.datasets.summary import summarize
from wmtk.errors import UsageError
from wmtk.viz.draw.canvas import shrink, to_rgb
from wmtk.viz.draw.episode_view import view_of
from wmtk.viz.draw.marks import end_of
from wmtk.viz.live.catalog import DataEntry

MOST_LISTED = 100  # episodes
SPRITES = 64  # images in one file
COLUMNS = 8
SIDE = 128  # pixels, the longer side of an image
THUMBS = 5  # images in the thumbnail of an episode
ORDERS = {"number": "episode", "return": "total_reward", "length": "length"}
MOST_STEPS = 20_000  # steps of an episode whose numbers are listed
MOST_LANES = 8


def overview(entry: DataEntry) -> dict[str, Any]:
    """The summary of a dataset."""
    with entry.lock:
        entry.dataset.refresh()
        summary = summarize(entry.dataset)
    return {
        "name": entry.name,
        "task": summary.task,
        "version": summary.version,
        "episodes": summary.episodes,
        "steps": summary.steps,
        "bytes": summary.stored_bytes,
        "returns": None if summary.returns is None else vars(summary.returns),
        "lengths": None if summary.lengths is None else vars(summary.lengths),
        "ends": summary.ends,
        "arrays": [{"path": a.path, "space": a.space} for a in summary.arrays],
        "provenance": [
            {"policy": m.policy, "env": m.env_id, "code": m.code_version, "episodes": m.episodes}
            for m in summary.provenance
        ],
    }


def listing(
    entry: DataEntry,
    *,
    offset: int,
    limit: int,
    order: str,
    descending: bool,
    min_return: float | None,
    max_return: float | None,
    min_length: int | None,
    max_length: int | None,
    ended: str | None,
) -> dict[str, Any]:
    """One page of the episodes that pass the filters."""
    if order not in ORDERS:
        raise UsageError(
            f"Episodes cannot be sorted by {order!r}.", f"Sort by {', '.join(ORDERS)}."
        )
    with entry.lock:
        table = entry.dataset.episodes
        matches = np.flatnonzero(
            select(
                min_return=min_return,
                max_return=max_return,
                min_length=min_length,
                max_length=max_length,
                ended=ended,
            )(table)
        )
        order_by = np.argsort(getattr(table, ORDERS[order])[matches], kind="stable")
        chosen = matches[order_by[::-1] if descending else order_by]
        page = chosen[offset : offset + min(limit, MOST_LISTED)].tolist()
        rows = [
            {
                "index": index,
                "length": int(table.length[index]),
                "return": float(table.total_reward[index]),
                "end": _end(int(table.end[index])),
                "id": f"{int(table.id[index]):016x}",
            }
            for index in page
        ]
    return {"total": len(chosen), "offset": offset, "episodes": rows}


def episode_of(entry: DataEntry, index: int) -> Episode:
    with entry.lock:
        if index >= len(entry.dataset):
            raise UsageError(f"{entry.name} has no episode {index}.", "Reload the list.")
        return entry.dataset[index]


def details(entry: DataEntry, index: int) -> dict[str, Any]:
    """The numbers of all steps of an episode, and its provenance."""
    episode, view = episode_of(entry, index), view_of(entry.dataset)
    by: Provenance = episode.provenance
    last = min(episode.length, MOST_STEPS)
    columns = [] if view.image is not None else view.lanes([episode])[0][:MOST_LANES]
    return {
        "index": index,
        "length": episode.length,
        "last": last,
        "return": episode.total_reward,
        "end": end_of(episode),
        "seed": episode.seed,
        "id": episode.id,
        "image": view.image,
        "actions": ["", *(view.actions.text(action) for action in episode.action[1 : last + 1])],
        "rewards": episode.reward[: last + 1],
        "lanes": [{"name": lane.name, "values": lane.values[: last + 1]} for lane in columns],
        "provenance": {
            "policy": by.policy,
            "env": by.env_id,
            "checkpoint": by.checkpoint,
            "code": by.code_version,
        },
    }


def sprites(entry: DataEntry, index: int, first: int) -> bytes:
    """A PNG with the images of up to SPRITES steps from `first` on, COLUMNS per row."""
    frames = _frames(entry, index, range(first, first + SPRITES))
    height, width = frames[0].shape[:2]
    rows = -(-len(frames) // COLUMNS)
    sheet = np.zeros((rows * height, COLUMNS * width, 3), np.uint8)
    for number, frame in enumerate(frames):
        top, left = number // COLUMNS * height, number % COLUMNS * width
        sheet[top : top + height, left : left + width] = frame
    return png(sheet)


def thumbnail(entry: DataEntry, index: int) -> bytes:
    """A few steps of an episode side by side, as PNG."""
    with entry.lock:
        if index >= len(entry.dataset):
            raise UsageError(f"{entry.name} has no episode {index}.", "Reload the list.")
        length = int(entry.dataset.episodes.length[index])
    steps = np.unique(np.linspace(0, length, THUMBS).astype(int)).tolist()
    frames = _frames(entry, index, steps)
    while len(frames) < THUMBS:
        frames.append(np.zeros_like(frames[0]))
    return png(np.concatenate(frames, 1))


def _frames(entry: DataEntry, index: int, steps: Any) -> list[NDArray[np.uint8]]:
    """The images of some steps, read without the rest of the episode."""
    with entry.lock:
        dataset = entry.dataset
        table = dataset.episodes
        if index >= len(table):
            raise UsageError(f"{entry.name} has no episode {index}.", "Reload the list.")
        view = view_of(dataset)
        image = view.image
        existing = [step for step in steps if step <= int(table.length[index])]
        if image is None or not existing:
            raise UsageError(
                f"{entry.name} has no images of these steps.", "Choose another episode."
            )
        part = table.parts[table.part[index]]
        first = int(table.start[index])
        reader = dataset.open_part(part)
        with dataset.reading(part):
            low, high = first + existing[0], first + existing[-1] + 1
            if high - low <= 2 * SPRITES:
                rows = reader.rows(f"obs/{image}", low, high)
                frames = [rows[step - existing[0]] for step in existing]
            else:
                path = f"obs/{image}"
                frames = [reader.rows(path, first + s, first + s + 1)[0] for s in existing]
    return [shrink(to_rgb(view.images(frame)), SIDE) for frame in frames]


def png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Pillow.fromarray(pixels).save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def _end(bits: int) -> str:
    return "terminated" if bits & 1 else "truncated" if bits & 2 else "cut"
