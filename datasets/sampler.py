"""`SequenceSampler`: draw batches of windows of episodes, (B, L), reproducibly."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode_table import EpisodeTable, Selection
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage.chunk_cache import ChunkCache
from wmtk.datasets.window_reader import OpenParts, WindowReader
from wmtk.errors import EvictedError, UsageError
from wmtk.observations import ObsCodec
from wmtk.reprs import brief_repr
from wmtk.spaces import ArraySpec

MEMORY = 512 * 2**20  # bytes of decoded chunks that a sampler keeps


@dataclass(frozen=True)
class Source:
    """A dataset to draw from, with the weight of its batches and a selection of its episodes.

    Example:
        >>> from wmtk.datasets import Dataset, SequenceSampler, Source, select
        >>> dataset = Dataset.open("catch.zarr")
        >>> best = Source(dataset, weight=0.5, select=select(min_return=-1.0))
        >>> batch = SequenceSampler([dataset, best], batch_size=4, length=10).sample()
    """

    dataset: Dataset
    weight: float = 1.0
    select: Selection | None = None
    may_be_empty: bool = False  # nothing is drawn from it while it has no episodes

    @classmethod
    def of(cls, value: object) -> Source:
        """A source as it is, or all episodes of a dataset or of the one at a path."""
        if isinstance(value, Source):
            return value
        if isinstance(value, str | os.PathLike):
            value = Dataset.open(value)
        if not isinstance(value, Dataset):
            name = type(value).__name__
            raise UsageError(f"A {name} is not a dataset.", "Pass a Dataset, its path or a Source.")
        return cls(value)

    def table(self) -> EpisodeTable:
        """The selected episodes."""
        table = self.dataset.episodes
        return table if self.select is None else table.where(self.select(table))


@dataclass(frozen=True)
class Batch:
    """B windows of L rows, aligned as `schema.ALIGNMENT` states; zero where `mask` is False.

    Example:
        >>> from wmtk.datasets import SequenceSampler
        >>> batch = SequenceSampler("catch.zarr", batch_size=4, length=100).sample()
        >>> batch.action.shape, batch.mask.sum(1).tolist()  # episodes of 80 rows
        ((4, 100), [80, 80, 80, 80])
    """

    obs: Mapping[str, NDArray[Any]]  # each (B, L, …)
    action: NDArray[Any]  # (B, L, …)
    reward: NDArray[np.float32]  # (B, L)
    terminated: NDArray[np.bool_]  # (B, L)
    truncated: NDArray[np.bool_]  # (B, L)
    # True where an episode begins. A window from the middle of an episode has none: the model
    # starts it from its zero state, but the action that led to its first row is known.
    is_first: NDArray[np.bool_]  # (B, L)
    mask: NDArray[np.bool_]  # (B, L), False on the padding of short episodes
    info: Mapping[str, NDArray[Any]]  # each (B, L, …), the requested keys
    source: NDArray[np.int64]  # (B,) number of the source
    episode: NDArray[np.int64]  # (B,) number of the episode in its dataset
    start: NDArray[np.int64]  # (B,) first row of the window in its episode
    step: int
    versions: tuple[int, ...]  # of the datasets, when the batch was drawn

    __repr__ = brief_repr


class DrawnWindows(NamedTuple):
    """The windows of a batch, each column (B,)."""

    source: NDArray[np.int64]
    part: NDArray[np.int64]  # index into the parts of the source
    first: NDArray[np.int64]  # row of the part
    start: NDArray[np.int64]  # row of the episode
    rows: NDArray[np.int64]
    episode: NDArray[np.int64]


def draw_windows(
    tables: Sequence[EpisodeTable],
    weights: Sequence[float],
    *,
    seed: int,
    step: int,
    batch_size: int,
    length: int,
    uniform_over: Literal["episodes", "steps"],
) -> DrawnWindows:
    """The windows of a batch: a pure function of the arguments."""
    rng = np.random.Generator(np.random.Philox(key=np.array([seed, step], np.uint64)))
    shares = np.array([w * bool(len(table)) for w, table in zip(weights, tables, strict=True)])
    source_draw, episode_draw, offset_draw = rng.random((3, batch_size))
    source = np.searchsorted(np.cumsum(shares / shares.sum()), source_draw, side="right")
    source = np.minimum(source, len(tables) - 1)
    part, first, start, rows, episode = np.empty((5, batch_size), np.int64)
    for number, table in enumerate(tables):
        at = source == number
        if not at.any():
            continue
        if uniform_over == "episodes":
            index = (episode_draw[at] * len(table)).astype(np.int64)
        else:
            row = (episode_draw[at] * table.row_ends[-1]).astype(np.int64)
            index = np.searchsorted(table.row_ends, row, side="right")
        episode_rows = table.length[index] + 1
        # Uniform within the episode, then clipped, so that ends are drawn often.
        offset = (offset_draw[at] * episode_rows).astype(np.int64)
        offset = np.minimum(offset, np.maximum(episode_rows - length, 0))
        part[at] = table.part[index]
        first[at] = table.start[index] + offset
        start[at] = offset
        rows[at] = np.minimum(episode_rows, length)
        episode[at] = table.episode[index]
    return DrawnWindows(source, part, first, start, rows, episode)


@dataclass(frozen=True)
class _Snapshot:
    """All sources at one version each."""

    versions: tuple[int, ...]
    tables: tuple[EpisodeTable, ...]
    parts: OpenParts


class SequenceSampler:
    """Draws batches as a pure function of (seed, step, versions of the datasets).

    `draw_windows` chooses the windows, a `WindowReader` fills them.

    Example:
        >>> from wmtk.datasets import SequenceSampler
        >>> sampler = SequenceSampler("catch.zarr", batch_size=4, length=10, seed=0)
        >>> sampler.sample().obs["image"].shape
        (4, 10, 64, 64, 1)
    """

    def __init__(
        self,
        sources: Dataset | Source | str | Sequence[Dataset | Source | str],
        *,
        batch_size: int,
        length: int,
        seed: int = 0,
        uniform_over: Literal["episodes", "steps"] = "episodes",
        info: Sequence[str] = (),
        memory: int = MEMORY,
        observations: ObsCodec | None = None,
    ) -> None:
        """Draw from one or several datasets.

        Args:
            sources: Datasets, paths of datasets, or `Source`s with weights and selections.
            batch_size: B, the windows of a batch.
            length: L, the rows of a window.
            seed: Batches of another seed are independent.
            uniform_over: Draw episodes with equal probability, or in proportion to their rows.
            info: Keys of `info` to include in batches.
            memory: Bytes of decoded data to keep.
            observations: Selects and converts the observation keys of batches; None keeps them as
                stored.
        """
        several = isinstance(sources, Sequence) and not isinstance(sources, str)
        values: Sequence[object] = sources if several else [sources]  # type: ignore[assignment]
        self.sources = [Source.of(value) for value in values]
        weights = [source.weight for source in self.sources]
        if not any(weights) or min(weights) < 0:
            raise UsageError(
                f"A sampler cannot draw from datasets with the weights {weights}.",
                "Pass at least one dataset; weights are 0 or more, and one is above 0.",
            )
        if not all(isinstance(number, int) for number in (batch_size, length, seed)):
            raise UsageError("Batch size, length and seed of a sampler are whole numbers.")
        if batch_size < 1 or length < 1 or seed < 0:
            raise UsageError(
                f"Batches of {batch_size} × {length} with seed {seed} cannot be drawn.",
                "Batch size and length must be 1 or more, the seed 0 or more.",
            )
        if uniform_over not in ("episodes", "steps"):
            raise UsageError(
                f"uniform_over={uniform_over!r} is unknown.", "Use 'episodes' or 'steps'."
            )
        self.batch_size = batch_size
        self.length = length
        self.seed = seed
        self.uniform_over = uniform_over
        self.step = 0  # of the next batch
        keys = None if observations is None else observations.sources
        first, *others = [source.dataset for source in self.sources]
        for other in others:
            names = f"{first.path} and {other.path}"
            first.schema.require_same_arrays(other.schema, names, obs=keys)
        self._reader = WindowReader(_arrays(first.schema, info), length, memory, observations)
        self._refreshing = threading.Lock()
        self._snapshot = self._take_snapshot()

    @property
    def memory(self) -> int:
        """Bytes of decoded data to keep."""
        return self._reader.memory

    @property
    def cache(self) -> ChunkCache:
        """The decoded data."""
        return self._reader.cache

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the datasets that batches are drawn from."""
        return self._snapshot.versions

    def _take_snapshot(self, previous: OpenParts | None = None) -> _Snapshot:
        tables = tuple(source.table() for source in self.sources)
        for source, table in zip(self.sources, tables, strict=True):
            if not len(table) and source.weight > 0 and not source.may_be_empty:
                raise UsageError(
                    f"{source.dataset.path} has no episode to sample"
                    + (" that was selected." if source.select else "."),
                    "Collect some first, or relax the selection.",
                )
        versions = tuple(source.dataset.version for source in self.sources)
        # All rows of the parts count, selected or not: they share the chunks.
        entries = [entry for table in tables for entry in table.parts]
        return _Snapshot(versions, tables, self._reader.open(entries, previous))

    def refresh(self) -> bool:
        """Move to the newest versions of the datasets; returns whether any has changed."""
        with self._refreshing:
            for source in self.sources:
                source.dataset.refresh()
            if self.versions == tuple(source.dataset.version for source in self.sources):
                return False
            self._snapshot = self._take_snapshot(self._snapshot.parts)
        return True

    def sample(self, step: int | None = None) -> Batch:
        """The batch of `step`; by default of `self.step`, which is then increased by one.

        If another process evicts or compacts parts while they are read, the batch is drawn again
        from the newest version.
        """
        number = self.step if step is None else step
        if number < 0:
            raise UsageError(f"There is no batch {number}.", "Batches are numbered from 0.")
        datasets = [source.dataset for source in self.sources]
        weights = [source.weight for source in self.sources]
        while True:
            snapshot = self._snapshot  # for the whole batch, even if another thread refreshes
            windows = draw_windows(
                snapshot.tables,
                weights,
                seed=self.seed,
                step=number,
                batch_size=self.batch_size,
                length=self.length,
                uniform_over=self.uniform_over,
            )
            columns = (windows.source, windows.part, windows.first, windows.rows)
            located = [
                (datasets[source], snapshot.tables[source].parts[part], first, rows)
                for source, part, first, rows in zip(*(c.tolist() for c in columns), strict=True)
            ]
            try:
                arrays = self._reader.read(located, snapshot.parts)
                break
            except EvictedError:
                # Another thread may have refreshed already.
                if not self.refresh() and self.versions == snapshot.versions:
                    raise
        if step is None:
            self.step += 1
        return self._batch(arrays, windows, number, snapshot.versions)

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self.sample()

    def _batch(
        self,
        arrays: Mapping[str, NDArray[Any]],
        windows: DrawnWindows,
        step: int,
        versions: tuple[int, ...],
    ) -> Batch:
        is_first = np.zeros((self.batch_size, self.length), bool)
        is_first[:, 0] = windows.start == 0

        def group(prefix: str) -> dict[str, NDArray[Any]]:
            paths = [path for path in self._reader.paths if path.startswith(prefix)]
            return {path.removeprefix(prefix): arrays[path] for path in paths}

        return Batch(
            obs=group("obs/"),
            action=arrays["action"],
            reward=arrays["reward"].astype(np.float32),
            terminated=arrays["terminated"],
            truncated=arrays["truncated"],
            is_first=is_first,
            mask=np.arange(self.length) < windows.rows[:, None],
            info=group("info/"),
            source=windows.source,
            episode=windows.episode,
            start=windows.start,
            step=step,
            versions=versions,
        )

    # --- saving the position ---

    def state_dict(self) -> dict[str, Any]:
        """The position, as JSON-ready data."""
        return {"seed": self.seed, "step": self.step, "versions": list(self.versions)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position; the caller opens the same versions of the datasets."""
        if state["seed"] != self.seed:
            raise UsageError(
                f"The saved position has seed {state['seed']}, the sampler {self.seed}.",
                "Create the sampler with the seed of the position.",
            )
        self.step = int(state["step"])


def _arrays(schema: Schema, info: Sequence[str]) -> dict[str, ArraySpec]:
    """The stored arrays that batches need: all but the infos that are not requested."""
    if unknown := [key for key in info if key not in schema.info]:
        raise UsageError(
            f"The datasets hold no info {unknown}.", f"They hold: {list(schema.info)}."
        )
    skipped = {f"info/{key}" for key in schema.info if key not in info}
    return {path: spec for path, spec in schema.arrays() if path not in skipped}
