"""`WindowReader`: fill (B, L) arrays with windows of stored episodes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.dataset import Dataset
from wmtk.datasets.storage.chunk_cache import ChunkCache
from wmtk.datasets.storage.part import PartEntry
from wmtk.datasets.storage.part_reader import PartReader
from wmtk.observations import ObsCodec
from wmtk.spaces import ArraySpec

THREADS = 4  # that read one batch; they spend about half of the time waiting for the disk
SMALL_ROW = 64  # bytes: arrays with such rows are read for a whole part at once


# (dataset, part, first, rows): rows [first, first + rows) of a part, all of one episode. Creating
# NamedTuples in its place takes 2% of the time of a batch from memory.
PartWindow = tuple[Dataset, PartEntry, int, int]


@dataclass(frozen=True)
class OpenParts:
    """The parts of one version of the data, opened at their first use."""

    resident: bool  # whether all decoded rows fit into memory together
    readers: dict[str, PartReader] = field(default_factory=dict)
    # If resident, all rows of each part used so far: the small arrays as records, then each large
    # one. A lookup here is cheaper than in the cache, which holds the same arrays.
    arrays: dict[str, list[NDArray[Any]]] = field(default_factory=dict)


class WindowReader:
    """Reads batches of windows; safe to use from several threads.

    Up to `memory` bytes of decoded data are cached: whole arrays if the dataset fits, otherwise
    chunks, which are decoded as needed.
    """

    def __init__(
        self,
        specs: Mapping[str, ArraySpec],
        length: int,
        memory: int,
        observations: ObsCodec | None = None,
    ) -> None:
        """Read the arrays of `specs` in windows of `length` rows, converted by `observations`.

        `specs` declares the rows as they are stored, by path.
        """
        specs, self._converted = dict(specs), {}
        self._codec = observations
        if observations is not None:
            outputs = {f"obs/{key}": spec for key, spec in observations.specs.items()}
            paths = [path for path in specs if path in outputs or not path.startswith("obs/")]
            specs = {path: outputs.get(path, specs[path]) for path in paths}
            changed = filter(observations.changes, observations.specs)
            self._converted = {f"obs/{key}": key for key in changed}
        self.paths = list(specs)
        self.length = length
        self.memory = memory
        self.cache = ChunkCache(memory)
        # Arrays that are converted are read separately, even if their rows are small.
        self._large = {
            path: spec
            for path, spec in specs.items()
            if spec.row_bytes > SMALL_ROW or path in self._converted
        }
        small = [(path, s.dtype, s.shape) for path, s in specs.items() if path not in self._large]
        self._small = np.dtype(small)
        self._row_bytes = sum(s.row_bytes for s in self._large.values()) + self._small.itemsize
        self._loading = threading.Lock()
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    def open(self, entries: Iterable[PartEntry], previous: OpenParts | None = None) -> OpenParts:
        """The parts of a version; those that `previous` has opened too are not opened again."""
        rows = {entry.part: entry.rows for entry in entries}
        # Other threads may open parts of `previous` at the same time: a copy is atomic.
        readers = previous.readers.copy() if previous else {}
        self.cache.drop_parts(readers.keys() - rows.keys())
        readers = {part: reader for part, reader in readers.items() if part in rows}
        return OpenParts(self._row_bytes * sum(rows.values()) <= self.memory, readers)

    def read(self, windows: Sequence[PartWindow], parts: OpenParts) -> dict[str, NDArray[Any]]:
        """Every array by path, (B, L, …), with zeros after the rows of shorter windows.

        Windows of parts that are not in memory are read in threads.
        """
        B, L = len(windows), self.length
        large = {path: np.empty((B, L, *s.shape), s.dtype) for path, s in self._large.items()}
        records = np.empty((B, L), self._small)
        # As bytes, because numpy copies records field by field.
        small = records.view(np.uint8).reshape(B, L, self._small.itemsize)
        if all(entry.part in parts.arrays for _, entry, _, _ in windows):
            self._fill(range(B), windows, parts, small, large)
        else:
            if parts.resident:
                # One thread decodes and converts a part, for all windows and batches that use it.
                with self._loading:
                    missing = {
                        entry.part: (dataset, entry)
                        for dataset, entry, _, _ in windows
                        if entry.part not in parts.arrays
                    }
                    load = self._load
                    self._in_threads([partial(load, *part, parts) for part in missing.values()])
            # Windows of the same part are read by the same thread where possible.
            order = sorted(range(B), key=lambda b: windows[b][1].part)
            share = -(-B // (2 * THREADS))
            groups = [order[first : first + share] for first in range(0, B, share)]
            fill = self._fill
            self._in_threads([partial(fill, g, windows, parts, small, large) for g in groups])
        return large | {
            path: np.ascontiguousarray(records[path]) for path in records.dtype.fields or ()
        }

    def _fill(
        self,
        numbers: Iterable[int],
        windows: Sequence[PartWindow],
        parts: OpenParts,
        small: NDArray[np.uint8],
        large: Mapping[str, NDArray[Any]],
    ) -> None:
        """Fill some windows of a batch: `small` (B, L, bytes) and each of `large` (B, L, …)."""
        outs = [small, *large.values()]
        for b in numbers:
            dataset, entry, first, rows = windows[b]
            blocks = parts.arrays.get(entry.part) or self._load(dataset, entry, parts)
            for out, block in zip(outs, blocks, strict=False):  # `small` only unless resident
                out[b, :rows] = block[first : first + rows]
            if not parts.resident:
                with dataset.reading(entry):
                    reader = parts.readers[entry.part]
                    for path, out in large.items():
                        if path in self._converted:
                            stored = reader.rows(path, first, first + rows)
                            out[b, :rows] = self._convert(path, stored)
                        else:
                            reader.read_into(path, first, out[b, :rows])
            if rows < self.length:
                for out in outs:
                    out[b, rows:] = 0

    def _load(self, dataset: Dataset, entry: PartEntry, parts: OpenParts) -> list[NDArray[Any]]:
        """All rows of a part: the small arrays and, if the data is resident, each large one."""
        with dataset.reading(entry):
            reader = parts.readers.get(entry.part)
            if reader is None:
                reader = dataset.open_part(entry, self.cache)
                parts.readers[entry.part] = reader
            blocks = [reader.packed(self._small)]
            if parts.resident:
                for path in self._large:
                    blocks.append(reader.whole(path, partial(self._convert, path)))
                parts.arrays[entry.part] = blocks
        return blocks

    def _convert(self, path: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Convert stored rows of an array to those of batches."""
        if self._codec is None or path not in self._converted:
            return rows
        return self._codec.rows(self._converted[path], rows)

    def _in_threads(self, tasks: Sequence[Callable[[], object]]) -> None:
        """Run tasks in the reading threads; raises the first error once all have ended."""
        if self._pool is None or self._pool[0] != os.getpid():  # a fork has no threads
            self._pool = os.getpid(), ThreadPoolExecutor(THREADS, thread_name_prefix="wmtk-read")
        futures = [self._pool[1].submit(task) for task in tasks]
        wait(futures)  # all of them: they write into the arrays of the batch
        for future in futures:
            future.result()
