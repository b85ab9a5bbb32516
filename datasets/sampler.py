"""Batches of sequences for training: (B, L) windows of episodes, drawn reproducibly."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode_table import EpisodeTable, Selection
from wmtk.datasets.storage.chunk_cache import ChunkCache
from wmtk.datasets.storage.part import PartEntry, PartReader
from wmtk.errors import EvictedError, UsageError
from wmtk.observations import ObsCodec
from wmtk.reprs import brief_repr

MEMORY = 512 * 2**20  # bytes of decoded chunks that a sampler keeps
THREADS = 4  # that read one batch: they wait for the disk as often as they decode
SMALL_ROW = 64  # bytes: arrays with such rows are read for a whole part at once


@dataclass(frozen=True)
class Source:
    """A dataset to draw from, how often, and which of its episodes."""

    dataset: Dataset
    weight: float = 1.0
    select: Selection | None = None
    may_be_empty: bool = False  # nothing is drawn from it then

    @classmethod
    def of(cls, value: object) -> Source:
        """The source itself, or all episodes of a dataset or of the one at a path."""
        if isinstance(value, Source):
            return value
        if isinstance(value, str | os.PathLike):
            value = Dataset.open(value)
        if not isinstance(value, Dataset):
            name = type(value).__name__
            raise UsageError(f"A {name} is not a dataset.", "Give a Dataset, its path or a Source.")
        return cls(value)

    def table(self) -> EpisodeTable:
        table = self.dataset.episodes
        return table if self.select is None else table.where(self.select(table))


@dataclass(frozen=True)
class Batch:
    """B windows of L rows. Row t holds what `schema.ALIGNMENT` says; beyond `mask` it is zero."""

    obs: Mapping[str, NDArray[Any]]  # each (B, L, …)
    action: NDArray[Any]  # (B, L, …)
    reward: NDArray[np.float32]  # (B, L)
    terminated: NDArray[np.bool_]  # (B, L)
    truncated: NDArray[np.bool_]  # (B, L)
    # True where an episode begins. A window from the middle of an episode has none: the model
    # starts it from its zero state, but the action that led to its first row is known.
    is_first: NDArray[np.bool_]  # (B, L)
    mask: NDArray[np.bool_]  # (B, L), false on the padding of short episodes
    info: Mapping[str, NDArray[Any]]  # each (B, L, …), the keys that were asked for
    source: NDArray[np.int64]  # (B,) number of the source
    episode: NDArray[np.int64]  # (B,) number of the episode in its dataset
    start: NDArray[np.int64]  # (B,) first row of the window in its episode
    step: int
    versions: tuple[int, ...]  # of the datasets, when the batch was drawn

    __repr__ = brief_repr


@dataclass(frozen=True)
class _View:
    """A source at one version: its episodes, and the parts that were opened so far."""

    source: Source
    version: int
    table: EpisodeTable
    last_row: NDArray[np.int64]  # cumulative rows, for drawing over steps
    readers: dict[str, PartReader]
    resident: bool  # whether all sources together fit into memory
    # If so, all rows of the parts used so far: of the small arrays and of each large one. They
    # stay in the cache as long as the view does, and looking there costs more than copying.
    held: dict[str, list[NDArray[Any]]] = field(default_factory=dict)


_Window = tuple[_View, PartEntry, int, int]  # …, first row of the part, number of rows


class _Windows(NamedTuple):
    """The windows of a batch, each column (B,)."""

    source: NDArray[np.int64]
    part: NDArray[np.int64]  # index into the parts of the source
    first: NDArray[np.int64]  # row of the part
    start: NDArray[np.int64]  # row of the episode
    rows: NDArray[np.int64]
    episode: NDArray[np.int64]


class SequenceSampler:
    """Draws batches as a pure function of (seed, step, versions of the datasets).

    Decoded data is kept up to `memory` bytes: a dataset that fits is served from memory as whole
    arrays, a larger one by chunks, decoded as needed from compressed files in the page cache.
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
        """With `observations`, batches hold these keys, converted as a model takes them."""
        several = isinstance(sources, Sequence) and not isinstance(sources, str)
        given: Sequence[object] = sources if several else [sources]  # type: ignore[assignment]
        self.sources = [Source.of(each) for each in given]
        weights = [source.weight for source in self.sources]
        if not any(weights) or min(weights) < 0:
            raise UsageError(
                f"A sampler cannot draw from datasets with the weights {weights}.",
                "Give at least one dataset; weights are 0 or more, and one is above 0.",
            )
        if not all(isinstance(number, int) for number in (batch_size, length, seed)):
            raise UsageError("Batch size, length and seed of a sampler are whole numbers.")
        if batch_size < 1 or length < 1 or seed < 0:
            raise UsageError(
                f"Batches of {batch_size} × {length} with seed {seed} cannot be drawn.",
                "Batch size and length must be 1 or more, the seed 0 or more.",
            )
        if uniform_over not in ("episodes", "steps"):
            raise UsageError(f"Cannot draw uniformly over {uniform_over!r}.", "episodes or steps.")
        self.batch_size = batch_size
        self.length = length
        self.seed = seed
        self.uniform_over = uniform_over
        self.memory = memory
        self.cache = ChunkCache(memory)
        self.step = 0  # of the next batch
        self._schema = self.sources[0].dataset.schema
        keys = None if observations is None else observations.sources
        for source in self.sources[1:]:
            names = f"{self.sources[0].dataset.path} and {source.dataset.path}"
            self._schema.require_same_arrays(source.dataset.schema, names, obs=keys)
        if unknown := [key for key in info if key not in self._schema.info]:
            raise UsageError(
                f"The datasets hold no info {unknown}.", f"They hold: {list(self._schema.info)}."
            )
        keep = {f"info/{key}" for key in info}
        wanted = {
            path: spec
            for path, spec in self._schema.arrays()
            if not path.startswith("info/") or path in keep
        }
        self._observations = observations
        self._converted: dict[str, str] = {}  # the keys of what is not used as it is stored
        if observations is not None:
            seen = {f"obs/{key}": spec for key, spec in observations.specs.items()}
            kept = (path for path in wanted if path in seen or not path.startswith("obs/"))
            wanted = {path: seen.get(path, wanted[path]) for path in kept}
            changed = filter(observations.changes, observations.specs)
            self._converted = {f"obs/{key}": key for key in changed}
        self._paths = list(wanted)
        # What is converted is read apart from the others, however small it is.
        self._large = {
            path: spec
            for path, spec in wanted.items()
            if spec.row_bytes > SMALL_ROW or path in self._converted
        }
        fields = [(path, s.dtype, s.shape) for path, s in wanted.items() if path not in self._large]
        self._small = np.dtype(fields)
        self._refreshing = threading.Lock()
        self._loading = threading.Lock()
        self._pool: tuple[int, ThreadPoolExecutor] | None = None
        self._views = self._look({})

    # --- the data ---

    def _look(self, readers: Mapping[str, PartReader]) -> tuple[_View, ...]:
        """The sources as they are now; `readers` are parts that were opened before."""
        tables = [source.table() for source in self.sources]
        decoded = sum(spec.row_bytes for spec in self._large.values()) + self._small.itemsize
        # All rows of the parts count, selected or not: they share the chunks.
        rows = sum(entry.rows for table in tables for entry in table.parts)
        views = []
        for source, table in zip(self.sources, tables, strict=True):
            if not len(table) and source.weight > 0 and not source.may_be_empty:
                raise UsageError(
                    f"{source.dataset.path} has no episode to sample"
                    + (" that was selected." if source.select else "."),
                    "Collect some first, or relax the selection.",
                )
            still = {e.part: readers[e.part] for e in table.parts if e.part in readers}
            last_row = np.cumsum(table.length + 1)
            resident = decoded * rows <= self.memory
            views.append(_View(source, source.dataset.version, table, last_row, still, resident))
        return tuple(views)

    @property
    def versions(self) -> tuple[int, ...]:
        return tuple(view.version for view in self._views)

    def refresh(self) -> bool:
        """Follow the datasets to their newest versions; returns whether any has moved."""
        with self._refreshing:
            for source in self.sources:
                source.dataset.refresh()
            if self.versions == tuple(source.dataset.version for source in self.sources):
                return False
            before: dict[str, PartReader] = {}
            for view in self._views:
                before |= view.readers.copy()  # other threads open parts meanwhile
            views = self._look(before)
            after = {part for view in views for part in view.readers}
            self._views = views
            self.cache.drop_parts(before.keys() - after)
        return True

    # --- drawing ---

    def _draw(self, views: Sequence[_View], step: int) -> _Windows:
        B, L = self.batch_size, self.length
        rng = np.random.Generator(np.random.Philox(key=np.array([self.seed, step], np.uint64)))
        weights = np.array([view.source.weight * bool(len(view.table)) for view in views])
        pick, which, where = rng.random((3, B))
        source = np.searchsorted(np.cumsum(weights / weights.sum()), pick, side="right")
        source = np.minimum(source, len(weights) - 1)
        part, first, start, rows, episode = np.empty((5, B), np.int64)
        for number, view in enumerate(views):
            mine = source == number
            if not mine.any():
                continue
            if self.uniform_over == "episodes":
                index = (which[mine] * len(view.table)).astype(np.int64)
            else:
                row = (which[mine] * view.last_row[-1]).astype(np.int64)
                index = np.searchsorted(view.last_row, row, side="right")
            held = view.table.length[index] + 1
            # Uniform within the episode, then clipped, so that ends are seen often.
            offset = np.minimum((where[mine] * held).astype(np.int64), np.maximum(held - L, 0))
            part[mine] = view.table.part[index]
            first[mine] = view.table.start[index] + offset
            start[mine] = offset
            rows[mine] = np.minimum(held, L)
            episode[mine] = view.table.episode[index]
        return _Windows(source, part, first, start, rows, episode)

    def sample(self, step: int | None = None) -> Batch:
        """The batch of a step: by default the next one, which moves `step` on."""
        number = self.step if step is None else step
        if number < 0:
            raise UsageError(f"There is no batch {number}.", "Batches are numbered from 0.")
        while True:
            versions = self.versions
            try:
                batch = self._read(number)
                break
            except EvictedError:
                # Another process evicted or compacted: draw the batch from the newest version,
                # to which another thread may have moved already.
                if not self.refresh() and self.versions == versions:
                    raise
        if step is None:
            self.step += 1
        return batch

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self.sample()

    def _read(self, step: int) -> Batch:
        B, L = self.batch_size, self.length
        views = self._views  # one snapshot, whatever a refresh does meanwhile
        drawn = self._draw(views, step)
        arrays = {path: np.empty((B, L, *s.shape), s.dtype) for path, s in self._large.items()}
        small = np.empty((B, L), self._small)
        where = (drawn.source, drawn.part, drawn.first, drawn.rows)
        windows = [
            (views[source], views[source].table.parts[part], first, rows)
            for source, part, first, rows in zip(*(c.tolist() for c in where), strict=True)
        ]
        # As bytes, because numpy copies records field by field.
        packed = small.view(np.uint8).reshape(B, L, self._small.itemsize)
        self._fill(windows, packed, arrays)
        arrays |= {path: np.ascontiguousarray(small[path]) for path in self._small.names or ()}
        is_first = np.zeros((B, L), bool)
        is_first[:, 0] = drawn.start == 0

        def group(prefix: str) -> dict[str, NDArray[Any]]:
            paths = [path for path in self._paths if path.startswith(prefix)]
            return {path.removeprefix(prefix): arrays[path] for path in paths}

        return Batch(
            obs=group("obs/"),
            action=arrays["action"],
            reward=arrays["reward"].astype(np.float32),
            terminated=arrays["terminated"],
            truncated=arrays["truncated"],
            is_first=is_first,
            mask=np.arange(L) < drawn.rows[:, None],
            info=group("info/"),
            source=drawn.source,
            episode=drawn.episode,
            start=drawn.start,
            step=step,
            versions=tuple(view.version for view in views),
        )

    def _reader(self, view: _View, entry: PartEntry) -> PartReader:
        reader = view.readers.get(entry.part)
        if reader is None:
            reader = view.source.dataset.open_part(entry, self.cache)
            view.readers[entry.part] = reader
        return reader

    def _load(self, view: _View, entry: PartEntry) -> list[NDArray[Any]]:
        """All rows of a part: the small arrays and, if everything fits, each large one."""
        with view.source.dataset.reading(entry):
            reader = self._reader(view, entry)
            blocks = [reader.packed(self._small)]
            if view.resident:
                for path in self._large:
                    blocks.append(reader.whole(path, partial(self._seen, path)))
                view.held[entry.part] = blocks
        return blocks

    def _seen(self, path: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of an array as they are handed out."""
        if self._observations is None or path not in self._converted:
            return rows
        return self._observations.rows(self._converted[path], rows)

    def _fill(
        self, windows: Sequence[_Window], packed: NDArray[Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        """Fill arrays (B, L, …) with the windows; what is not in memory is read in threads."""

        def fill(numbers: Sequence[int]) -> None:
            for b in numbers:
                self._fill_window(b, windows[b], packed, arrays)

        if all(entry.part in view.held for view, entry, _, _ in windows):
            fill(range(len(windows)))
            return
        # A part that is kept in memory is decoded and converted once, not by each thread using it
        # nor for each of the batches that are read at the same time.
        with self._loading:
            whole = {
                (id(view), entry.part): (view, entry)
                for view, entry, _, _ in windows
                if view.resident and entry.part not in view.held
            }
            self._in_threads([partial(self._load, view, entry) for view, entry in whole.values()])
        # Windows of the same part are read by the same thread where possible.
        order = sorted(range(len(windows)), key=lambda b: windows[b][1].part)
        share = -(-len(order) // (2 * THREADS))
        starts = range(0, len(order), share)
        self._in_threads([partial(fill, order[first : first + share]) for first in starts])

    def _in_threads(self, tasks: Sequence[Callable[[], object]]) -> None:
        """Run the tasks in the reading threads; the first error is raised once all have ended."""
        futures = [self._threads().submit(task) for task in tasks]
        wait(futures)  # also those after one that fails: they write into the batch's arrays
        for future in futures:
            future.result()

    def _fill_window(
        self, b: int, window: _Window, packed: NDArray[Any], arrays: Mapping[str, NDArray[Any]]
    ) -> None:
        view, entry, first, rows = window
        blocks = view.held.get(entry.part) or self._load(view, entry)
        outs = [packed, *arrays.values()]
        for out, block in zip(outs, blocks, strict=False):  # only `packed` if not resident
            out[b, :rows] = block[first : first + rows]
        if not view.resident:
            with view.source.dataset.reading(entry):
                reader = self._reader(view, entry)
                for path, array in arrays.items():
                    if path in self._converted:
                        array[b, :rows] = self._seen(path, reader.rows(path, first, first + rows))
                    else:
                        reader.read_into(path, first, array[b, :rows])
        if rows < self.length:
            for out in outs:
                out[b, rows:] = 0

    def _threads(self) -> ThreadPoolExecutor:
        """The threads that read; a forked process has none of its parent's and starts its own."""
        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = os.getpid(), ThreadPoolExecutor(THREADS, thread_name_prefix="wmtk-read")
        return self._pool[1]

    # --- saving the position ---

    def state(self) -> dict[str, Any]:
        """The position, as JSON-ready data."""
        return {"seed": self.seed, "step": self.step, "versions": list(self.versions)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken. The datasets' versions are the caller's to open."""
        if state["seed"] != self.seed:
            raise UsageError(f"The position is of seed {state['seed']}, not of {self.seed}.")
        self.step = int(state["step"])
