"""Windows of recorded episodes to look at a model with: which ones, and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Batch, Dataset, EpisodeTable
from wmtk.errors import UsageError

CONTEXT, HORIZON = 5, 45
WINDOWS = 50
# Windows that a model looks at together: few, for little memory, and for steps of play in between.
AT_ONCE = 2


@dataclass(frozen=True)
class Window:
    """Rows of one episode, which it never leaves."""

    episode: int  # index in the dataset
    start: int
    rows: int  # fewer than asked for where the episode is short


def choose_windows(
    table: EpisodeTable,
    candidates: NDArray[np.bool_],
    *,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    count: int = WINDOWS,
    episodes: int | None = None,
    seed: int = 0,
) -> list[Window]:
    """About `count` windows of `context` + `horizon` rows, spread over episodes and over time.

    Of the candidates (one flag per episode), at most `episodes` are drawn. As in training, a start
    is drawn within the episode and moved so that the window ends with it, if it would not fit: ends
    are seen often. Shorter episodes are used whole; those without a row after the context cannot
    be.
    """
    if context < 1 or horizon < 1:
        raise UsageError(
            f"A context of {context} and a horizon of {horizon} make no window.", "Use 1 or more."
        )
    usable = np.flatnonzero(candidates & (table.length + 1 > context))
    if not len(usable):
        raise UsageError(
            f"No episode has more than {context} rows: nothing is left to predict.",
            "Use a shorter --context, or longer episodes.",
        )
    rng = np.random.default_rng(seed)
    most = min(len(usable), count, count if episodes is None else episodes)
    drawn = np.sort(rng.permutation(usable)[:most])
    windows = []
    for number, episode in enumerate(drawn.tolist()):
        share = count // most + (number < count % most)
        rows = int(table.length[episode]) + 1
        taken = min(rows, context + horizon)
        # One in each of equal stretches, so that the windows of an episode differ.
        at = (np.arange(share) + rng.random(share)) / share * rows
        starts = np.unique(np.minimum(at.astype(np.int64), rows - taken))
        windows += [Window(episode, start, taken) for start in starts.tolist()]
    return windows


def read_windows(dataset: Dataset, windows: Sequence[Window], length: int) -> Batch:
    """The first rows of windows as a batch (N, length, …), zero where a window is shorter."""
    N, table = len(windows), dataset.episodes
    arrays: dict[str, NDArray[Any]] = {
        path: np.zeros((N, length, *spec.shape), spec.dtype)
        for path, spec in dataset.schema.arrays()
    }
    for number, window in enumerate(windows):
        entry = table.parts[table.part[window.episode]]
        first = int(table.start[window.episode]) + window.start
        reader = dataset.open_part(entry)
        with dataset.reading(entry):
            for path, array in arrays.items():
                rows = min(window.rows, length)
                array[number, :rows] = reader.rows(path, first, first + rows)
    starts = np.array([window.start for window in windows])
    existing = np.array([window.rows for window in windows])
    steps = np.arange(length)

    def group(prefix: str) -> dict[str, NDArray[Any]]:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    return Batch(
        obs=group("obs/"),
        action=arrays["action"],
        reward=arrays["reward"].astype(np.float32),
        terminated=arrays["terminated"],
        truncated=arrays["truncated"],
        is_first=(starts[:, None] + steps) == 0,
        mask=steps < existing[:, None],
        info=group("info/"),
        source=np.zeros(N, np.int64),
        episode=np.array([window.episode for window in windows]),
        start=starts,
        step=0,
        versions=(dataset.version,),
    )


def batches(
    dataset: Dataset, windows: Sequence[Window], length: int, size: int = AT_ONCE
) -> Iterator[Batch]:
    """The windows, some at a time."""
    for first in range(0, len(windows), size):
        yield read_windows(dataset, windows[first : first + size], length)
