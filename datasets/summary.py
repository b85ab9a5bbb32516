"""`summarize`: counts, returns, lengths, provenance and sizes of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Provenance
from wmtk.datasets.storage.header import read_header
from wmtk.errors import DatasetError

MAX_BINS = 24


@dataclass(frozen=True)
class Statistics:
    """Mean, standard deviation and range of a value over the episodes."""

    mean: float
    std: float
    min: float
    max: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Statistics | None:
        if not len(values):
            return None
        numbers = values.astype(np.float64)
        return cls(
            float(numbers.mean()), float(numbers.std()), float(numbers.min()), float(numbers.max())
        )


@dataclass(frozen=True)
class ArraySummary:
    path: str
    space: str
    dtype: str
    row_bytes: int


@dataclass
class ProvenanceSummary:
    """The episodes of one policy, environment and version of the code."""

    policy: str
    checkpoint: str
    env_id: str
    code_version: str
    episodes: int = 0
    steps: int = 0
    mean_return: float = 0.0
    seeds: list[int] = field(default_factory=list)

    def add(self, record: dict[str, Any]) -> None:
        self.mean_return += (record["return"] - self.mean_return) / (self.episodes + 1)
        self.episodes += 1
        self.steps += record["length"]
        if record["seed"] is not None:
            self.seeds.append(record["seed"])


@dataclass(frozen=True)
class TagSummary:
    name: str
    version: int
    episodes: int
    steps: int
    created: str
    note: str


@dataclass(frozen=True)
class Summary:
    """The result of `summarize`: what `wmtk data info` prints."""

    path: Path
    id: str
    format: int
    version: int
    tag: str | None
    env: dict[str, Any]
    attributes: dict[str, Any]
    capacity: int | None
    episodes: int
    steps: int
    parts: int
    stored_bytes: int
    raw_bytes: int
    returns: Statistics | None
    lengths: Statistics | None
    histogram: tuple[int, ...]  # episodes in equal intervals of the return, lowest first
    ends: dict[str, int]
    arrays: tuple[ArraySummary, ...]
    provenance: tuple[ProvenanceSummary, ...]
    tags: tuple[TagSummary, ...]

    @property
    def task(self) -> str:
        return task_name(self.env)

    @property
    def ratio(self) -> float:
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else 1.0


def task_name(env: Mapping[str, Any]) -> str:
    """The name of the task in the description of an environment; empty if it has none."""
    return next((str(env[key]) for key in ("task", "env_id", "id") if env.get(key)), "")


def summarize(dataset: Dataset, *, tag: str | None = None) -> Summary:
    """Summarize a snapshot of a dataset; `tag` is the tag that it was opened with.

    Example:
        >>> from wmtk.datasets import Dataset, summarize
        >>> summary = summarize(Dataset.open("catch.zarr"))
        >>> summary.episodes, summary.returns.mean
        (8, -2.0)
    """
    table = dataset.episodes
    return Summary(
        path=dataset.path,
        id=dataset.id,
        format=dataset.header["format"],
        version=dataset.version,
        tag=tag,
        env=dict(dataset.env),
        attributes=dict(dataset.header["attributes"]),
        capacity=dataset.capacity,
        episodes=len(table),
        steps=table.steps,
        parts=len(dataset.parts),
        stored_bytes=dataset.stored_bytes,
        raw_bytes=dataset.raw_bytes,
        returns=Statistics.of(table.total_reward),
        lengths=Statistics.of(table.length),
        histogram=_histogram(table.total_reward),
        ends=_ends(table.end),
        arrays=tuple(
            ArraySummary(path, str(spec), spec.dtype, spec.row_bytes)
            for path, spec in dataset.schema.arrays()
        ),
        provenance=tuple(_by_provenance(dataset)),
        tags=tag_summaries(dataset),
    )


def tag_summaries(dataset: Dataset) -> tuple[TagSummary, ...]:
    return tuple(
        TagSummary(t.name, t.version, t.episodes, t.steps, t.created, t.note)
        for t in dataset.tags()
    )


def _ends(end: NDArray[np.int64]) -> dict[str, int]:
    names = ("cut", "terminated", "truncated", "both")
    counts = np.bincount(end, minlength=4)
    return {name: int(counts[code]) for code, name in enumerate(names)}


def _histogram(returns: NDArray[np.float64]) -> tuple[int, ...]:
    """Counts in equal intervals, at most MAX_BINS and not more than there are distinct returns."""
    finite = returns[np.isfinite(returns)]
    distinct = len(np.unique(finite))
    if distinct < 2:
        return ()
    counts, _ = np.histogram(finite, min(MAX_BINS, distinct))
    return tuple(int(count) for count in counts)


def _by_provenance(dataset: Dataset) -> list[ProvenanceSummary]:
    """The episodes by provenance, in the order of its first appearance."""
    groups: dict[tuple[str, ...], ProvenanceSummary] = {}
    for record in dataset.describe():
        provenance = Provenance.from_json(record["provenance"])
        key = (
            provenance.policy,
            provenance.checkpoint,
            provenance.env_id,
            provenance.code_version,
        )
        groups.setdefault(key, ProvenanceSummary(*key)).add(record)
    return list(groups.values())


# --- folders of datasets ----------------------------------------------------------------------


def find_datasets(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Every dataset in or below a folder, sorted by path, without hidden folders and links.

    Example:
        >>> from wmtk.datasets import find_datasets
        >>> [path.name for path in find_datasets(".")]
        ['catch.zarr']
    """
    pending = [Path(folder)]
    while pending:
        path = pending.pop()
        try:
            if _is_dataset(path):
                yield path
                continue
            children = sorted(path.iterdir(), reverse=True)
            pending += [
                c for c in children if c.is_dir() and not c.is_symlink() and c.name[0] != "."
            ]
        except OSError:
            continue  # not readable


def _is_dataset(path: Path) -> bool:
    try:
        read_header(path)
    except DatasetError:
        # A damaged dataset is listed too.
        names = ("zarr.json", "parts", "log", "tags", "tmp", "trash")
        return sum(os.path.lexists(path / name) for name in names) >= 4
    return True
