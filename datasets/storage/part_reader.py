"""`PartReader`: read episodes, rows and whole arrays of a part."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.chunk_cache import ChunkCache
from wmtk.datasets.storage.part import PartAttributes, PartEntry
from wmtk.datasets.storage.shard import ArrayMetadata, ArrayRecord, ShardReader, data_file
from wmtk.errors import CorruptDatasetError
from wmtk.spaces import ArraySpec

MAX_ARRAY_BYTES = 2**40  # of one array of a part, decoded
WHOLE = -1  # the cache key of whole arrays, in the place of a chunk number


@lru_cache
def _folders(paths: tuple[str, ...]) -> list[str]:
    """The folders of these arrays inside a part, outer ones first."""
    folders = {str(folder) for path in paths for folder in [Path(path), *Path(path).parents]}
    return sorted(folders - {"."})


def read_attributes(folder: Path, entry: PartEntry) -> PartAttributes:
    """The attributes of a part; raises CorruptDatasetError unless they are those of the log entry.

    Raises FileNotFoundError if the part or its zarr.json is missing.
    """
    path = folder / "zarr.json"
    if folder.is_symlink():
        raise CorruptDatasetError(
            f"{folder} is a symbolic link, which a dataset never contains.",
            "Replace it by the folder itself if you trust it.",
            folder,
        )
    data = atomic.read_bytes(path, limit=min(entry.bytes, atomic.MAX_JSON_BYTES))
    if hashlib.sha256(data).hexdigest() != entry.digest:
        raise CorruptDatasetError(
            f"{path} was altered: its SHA-256 is not the one in the commit log.",
            atomic.REPAIR_HINT,
            path,
        )
    attributes = PartAttributes.parse(data, path)
    attributes.require_listed(entry, path)
    return attributes


def file_problems(
    part: Path, specs: Mapping[str, ArraySpec], records: Mapping[str, ArrayRecord], rows: int
) -> list[tuple[str, str]]:
    """(path, problem) of array files that are missing, links, or of another size than recorded."""
    # Runs whenever a part is opened: strings are several times faster than Path.
    problems = []
    root = str(part)
    for folder in _folders(tuple(specs)):
        if os.path.islink(f"{root}/{folder}"):  # noqa: PTH114
            problems.append((f"{root}/{folder}", "is a symbolic link"))
    for path in sorted(specs.keys() | records.keys()):
        spec, record = specs.get(path), records.get(path)
        if spec is None or record is None:
            what = "is not in the dataset's schema" if spec is None else "is not in the part"
            problems.append((f"{root}/{path}", what))
            continue
        if record.rows != rows or spec.row_bytes * rows > MAX_ARRAY_BYTES:
            what = f"has {record.rows} rows instead of {rows}"
            problems.append((f"{root}/{path}", what if record.rows != rows else "is too large"))
            continue
        file = f"{root}/{path}/{data_file(spec)}"
        try:
            status = os.lstat(file)
        except (FileNotFoundError, NotADirectoryError):
            problems.append((file, "is missing"))
            continue
        except OSError as error:
            problems.append((file, f"cannot be read ({error.strerror})"))
            continue
        if stat.S_ISLNK(status.st_mode):
            problems.append((file, "is a symbolic link"))
        elif status.st_size != record.bytes:
            problems.append((file, f"has {status.st_size} bytes instead of {record.bytes}"))
    return problems


class PartReader:
    """Reads one part, through a cache of decoded chunks if one is passed."""

    def __init__(
        self, root: Path, schema: Schema, entry: PartEntry, cache: ChunkCache | None = None
    ) -> None:
        self.path = root / "parts" / entry.part
        self.schema = schema
        self.entry = entry
        self._cache = cache
        self._shards: dict[str, ShardReader] = {}
        self._specs = dict(schema.arrays())
        self.attributes = read_attributes(self.path, entry)
        self._records = self.attributes.arrays
        if problems := file_problems(self.path, self._specs, self._records, entry.rows):
            lines = "\n".join(f"  {path} {problem}" for path, problem in problems)
            raise CorruptDatasetError(
                f"{self.path} is incomplete:\n{lines}", atomic.REPAIR_HINT, self.path
            )

    def require_arrays(self) -> None:
        """Raise CorruptDatasetError unless all arrays have the declared shapes and dtypes.

        The shards do not show it: the same bytes can be float32 or int32.
        """
        for path, spec in self._specs.items():
            file = self.path / path / "zarr.json"
            document = atomic.parse_json(
                atomic.read_bytes(file, limit=atomic.MAX_MARKER_BYTES), file
            )
            metadata = ArrayMetadata.read(document, file, atomic.REPAIR_HINT)
            if (metadata.shape[1:], metadata.data_type) != (spec.shape, spec.dtype):
                raise CorruptDatasetError(
                    f"{file} describes rows of shape {metadata.shape[1:]} and dtype "
                    f"{metadata.data_type}, but the dataset declares "
                    f"{spec.shape} and {spec.dtype}.",
                    atomic.REPAIR_HINT,
                    file,
                )

    def shard(self, path: str) -> ShardReader:
        """The reader of one array, opened at first use."""
        reader = self._shards.get(path)
        if reader is None:
            reader = ShardReader(self.path / path, self._specs[path], self._records[path])
            self._shards[path] = reader
        return reader

    def read_into(self, path: str, start: int, out: NDArray[Any]) -> None:
        """Fill `out` with the rows of one array from row `start` on."""
        shard = self.shard(path)
        size = shard.chunk_rows
        stop = start + len(out)
        for number in range(start // size, -(-stop // size)):
            base = number * size
            low, high = max(start, base), min(stop, base + size)
            load = partial(shard.chunk, number)
            key = (self.entry.part, path, number)
            chunk = self._cache.get(key, load, at_once=False) if self._cache else load()
            out[low - start : high - start] = chunk[low - base : high - base]

    def whole(
        self, path: str, change: Callable[[NDArray[Any]], NDArray[Any]] = lambda rows: rows
    ) -> NDArray[Any]:
        """All rows of one array, with `change` applied; the result is cached."""

        def load() -> NDArray[Any]:
            shard = self.shard(path)
            out = np.empty((self.entry.rows, *self._specs[path].shape), self._specs[path].dtype)
            shard.whole(out)
            return change(out)

        return self._cache.get((self.entry.part, path, WHOLE), load) if self._cache else load()

    def packed(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """All rows of the arrays that the fields of `dtype` name, as (rows, bytes of a record).

        A window of many small arrays is then one copy instead of one per array.
        """

        def load() -> NDArray[Any]:
            out = np.empty(self.entry.rows, dtype)
            for path in dtype.names or ():
                self.shard(path).whole(out[path])
            return out.view(np.uint8).reshape(-1, dtype.itemsize)

        key = (self.entry.part, "packed", WHOLE)
        return self._cache.get(key, load) if self._cache else load()

    def rows(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) of one array."""
        self.shard(path)  # refuses sizes that its file cannot hold, before they are allocated
        out = np.empty((stop - start, *self._specs[path].shape), self._specs[path].dtype)
        self.read_into(path, start, out)
        return out

    def episode(self, number: int) -> Episode:
        row = self.attributes.episodes[number]
        start, stop = row.start, row.start + row.length + 1
        arrays = {path: self.rows(path, start, stop) for path in self._specs}
        return Episode.from_arrays(arrays, *self.attributes.origin(number))

    def episodes(self) -> Iterator[Episode]:
        """Every episode, decoding each chunk once."""
        whole = {path: self.rows(path, 0, self.entry.rows) for path in self._specs}
        for number, row in enumerate(self.attributes.episodes):
            span = slice(row.start, row.start + row.length + 1)
            arrays = {path: rows[span] for path, rows in whole.items()}
            yield Episode.from_arrays(arrays, *self.attributes.origin(number))
