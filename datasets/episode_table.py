"""`EpisodeTable`: the episodes of a snapshot as columns, for samplers, filters and splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.storage.part import PartEntry
from wmtk.errors import UsageError

Mask = NDArray[np.bool_]
Selection = Callable[["EpisodeTable"], Mask]
_COLUMNS = ("episode", "part", "number", "start", "length", "total_reward", "end", "id")
ENDS = {"cut": 0, "terminated": 1, "truncated": 2}


@dataclass(frozen=True)
class EpisodeTable:
    """One row per episode, in the order of the commits.

    Example:
        >>> from wmtk.datasets import Dataset
        >>> Dataset.open("catch.zarr").episodes.total_reward.tolist()
        [-5.0, -3.0, -1.0, -1.0, -1.0, -3.0, -3.0, 1.0]
    """

    parts: tuple[PartEntry, ...]
    episode: NDArray[np.int64]  # its number among all episodes ever committed
    part: NDArray[np.int64]  # index into `parts`
    number: NDArray[np.int64]  # within its part
    start: NDArray[np.int64]  # first row within its part
    length: NDArray[np.int64]  # in steps; it has one row more
    total_reward: NDArray[np.float64]
    end: NDArray[np.int64]  # bit 1 terminated, bit 2 truncated, 0 cut
    id: NDArray[np.uint64]

    def __repr__(self) -> str:
        return f"EpisodeTable(episodes={len(self)}, steps={self.length.sum()})"

    @classmethod
    def of(cls, parts: Sequence[PartEntry]) -> EpisodeTable:
        counts = [len(entry.lengths) for entry in parts]
        number = np.concatenate([np.arange(n) for n in counts]) if counts else np.zeros(0, int)
        length = _column(parts, "lengths", np.int64)
        rows = np.cumsum(length + 1) - (length + 1)
        first = np.cumsum([0, *[entry.rows for entry in parts]])[:-1]
        part = np.repeat(np.arange(len(parts)), counts)
        ids = [int(name, 16) for entry in parts for name in entry.ids]
        return cls(
            parts=tuple(parts),
            episode=np.array([e.first for e in parts], np.int64)[part] + number,
            part=part,
            number=number,
            start=rows - first[part],
            length=length,
            total_reward=_column(parts, "returns", np.float64),
            end=_column(parts, "ends", np.int64),
            id=np.array(ids, np.uint64),
        )

    def __len__(self) -> int:
        return len(self.length)

    @property
    def steps(self) -> int:
        return int(self.length.sum())

    @cached_property
    def row_ends(self) -> NDArray[np.int64]:
        """Rows of all episodes up to and including each one."""
        return np.cumsum(self.length + 1)

    def where(self, mask: Mask) -> EpisodeTable:
        """The episodes where `mask` is true, of the same parts."""
        columns = {name: getattr(self, name)[mask] for name in _COLUMNS}
        return EpisodeTable(parts=self.parts, **columns)


def _column(parts: Sequence[PartEntry], field: str, dtype: Any) -> NDArray[Any]:
    return np.array([value for entry in parts for value in getattr(entry, field)], dtype)


def select(
    *,
    min_return: float | None = None,
    max_return: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    ended: str | None = None,
) -> Selection:
    """Select episodes by return, length (inclusive bounds) and end.

    `ended` is "terminated", "truncated", or "cut" for recordings that were cut off.

    Example:
        >>> from wmtk.datasets import Dataset, select
        >>> selection = select(min_return=0.0, ended="terminated")
        >>> episodes = Dataset.open("catch.zarr").episodes
        >>> len(episodes.where(selection(episodes)))
        1
    """
    if ended is not None and ended not in ENDS:
        raise UsageError(f"Episodes do not end by {ended!r}.", f"Use one of: {', '.join(ENDS)}.")

    def mask(table: EpisodeTable) -> Mask:
        keep = np.ones(len(table), bool)
        if min_return is not None:
            keep &= table.total_reward >= min_return
        if max_return is not None:
            keep &= table.total_reward <= max_return
        if min_length is not None:
            keep &= table.length >= min_length
        if max_length is not None:
            keep &= table.length <= max_length
        if ended == "cut":
            keep &= table.end == 0
        elif ended is not None:
            keep &= (table.end & ENDS[ended]) > 0
        return keep

    return mask


def split(fraction: float, *, held_out: bool, seed: int = 0) -> Selection:
    """Select one side of a train/validation split that depends on the content of episodes only.

    An episode stays on its side when the dataset grows or is merged, and equal episodes are on the
    same side. With two episodes or more neither side is empty.

    Example:
        >>> from wmtk.datasets import Dataset, split
        >>> episodes = Dataset.open("catch.zarr").episodes
        >>> len(episodes.where(split(0.25, held_out=False)(episodes)))
        5
        >>> len(episodes.where(split(0.25, held_out=True)(episodes)))
        3
    """
    if not 0 <= fraction < 1:
        raise UsageError(f"{fraction} is not a fraction of held-out episodes.", "Use 0 to below 1.")

    def mask(table: EpisodeTable) -> Mask:
        draw = _scramble(table.id, seed)
        validation = draw < np.uint64(int(fraction * 2**64))
        if fraction > 0 and len(table) > 1:
            if not validation.any():
                validation = draw == draw.min()
            elif validation.all():
                validation = draw != draw.max()
        return validation if held_out else ~validation

    return mask


def _scramble(ids: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """splitmix64 of the ids: 64 uniformly distributed bits per episode."""
    with np.errstate(over="ignore"):
        x = ids + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)
