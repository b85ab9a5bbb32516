"""Parts: immutable folders of zarr arrays that hold whole episodes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from wmtk.datasets.episode import Episode, Provenance, ProvenanceRecord
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, hosts
from wmtk.datasets.storage.chunk_cache import ChunkCache
from wmtk.datasets.storage.shard import (
    ArrayMetadata,
    ArrayRecord,
    ShardReader,
    data_file,
    write_array,
)
from wmtk.documents import Document, Items, Text
from wmtk.errors import CorruptDatasetError
from wmtk.spaces import ArraySpec

PART_ID = re.compile(r"p[0-9]{8,64}-[0-9a-f]{8}")
MAX_PART_ROWS = 2**31
MAX_ARRAY_BYTES = 2**40  # of one array of a part, decoded
MAX_EPISODES = 2**62  # numbers stay within int64
WHOLE = -1  # the cache key of whole arrays, in the place of a chunk number

PartId = Annotated[str, Field(pattern=f"^{PART_ID.pattern}$")]
EpisodeId = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Length = Annotated[int, Field(ge=1, lt=MAX_PART_ROWS)]
Count = Annotated[int, Field(ge=0, lt=MAX_EPISODES)]


class PartEntry(Document):
    """A part in the commit log: enough to draw windows without opening the part."""

    part: PartId
    # The number of its first episode, counted over all episodes ever committed. Compacted parts
    # get that of their first source: episodes keep their numbers and order. −1 until committed.
    first: Annotated[int, Field(ge=-1, lt=MAX_EPISODES)]
    bytes: Count  # of all files
    digest: str  # SHA-256 of the part's zarr.json, which has the checksums of all other files
    ids: Annotated[Items[EpisodeId], Field(min_length=1)]
    lengths: Items[Length]  # in steps; an episode has one row more
    returns: Items[float]
    ends: Items[Annotated[int, Field(ge=0, le=3)]]  # 1 terminated, 2 truncated, 3 both, 0 cut

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if not len(self.ids) == len(self.lengths) == len(self.returns) == len(self.ends):
            raise ValueError("columns of different lengths")
        if self.rows > MAX_PART_ROWS:
            raise ValueError("too many rows")
        return self

    @cached_property
    def steps(self) -> int:
        return sum(self.lengths)

    @property
    def rows(self) -> int:
        return self.steps + len(self.lengths)

    @property
    def stop(self) -> int:
        """The number after that of its last episode."""
        return self.first + len(self.ids)

    def numbered(self, first: int) -> PartEntry:
        """The entry with the number of its first episode."""
        return self.model_copy(update={"first": first})


class EpisodeRow(Document):
    """One episode in the attributes of its part."""

    id: EpisodeId
    start: Count
    length: Length
    total_reward: float = Field(alias="return")
    terminated: bool
    truncated: bool
    seed: int | None
    provenance: Count  # index into the part's provenance records


class PartAttributes(Document):
    """The attributes of a part: its episodes, their provenance, the checksums of its files."""

    part: PartId
    created: Text
    episodes: Annotated[Items[EpisodeRow], Field(min_length=1)]
    provenance: Items[ProvenanceRecord]
    arrays: dict[str, ArrayRecord]

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        start = 0
        for row in self.episodes:
            if row.start != start:
                raise ValueError(f"episode {row.id} starts at row {row.start} instead of {start}")
            if row.provenance >= len(self.provenance):
                raise ValueError(f"episode {row.id} has no provenance")
            start += row.length + 1
        return self

    @classmethod
    def parse(cls, data: bytes, path: Path) -> Self:
        """Validate the content of a part's zarr.json."""
        with contextlib.suppress(ValidationError):  # pydantic's own reader of JSON is faster
            return cls.model_validate(_Group.model_validate_json(data).attributes.wmtk)
        return cls.read(
            atomic.attributes_in(atomic.parse_json(data, path)), path, atomic.REPAIR_HINT
        )

    def entry(self, size: int, digest: str) -> PartEntry:
        """The log entry with these attributes, without episode numbers."""
        columns = self._columns()
        return PartEntry(part=self.part, first=-1, bytes=size, digest=digest, **columns)

    def _columns(self) -> dict[str, Any]:
        """The columns of the log entry, one value per episode."""
        return {
            "ids": tuple([row.id for row in self.episodes]),
            "lengths": tuple([row.length for row in self.episodes]),
            "returns": tuple([row.total_reward for row in self.episodes]),
            "ends": tuple([row.terminated + 2 * row.truncated for row in self.episodes]),
        }

    def require_listed(self, entry: PartEntry, path: Path) -> None:
        """Raise unless the commit log lists the same part with the same episodes."""
        ours = {"part": self.part, **self._columns()}
        if fields := [key for key, value in ours.items() if value != getattr(entry, key)]:
            raise CorruptDatasetError(
                f"{path} does not agree with the commit log on: {', '.join(fields)}.",
                atomic.REPAIR_HINT,
                path,
            )

    def origin(self, number: int) -> tuple[int | None, Provenance]:
        """Seed and provenance of an episode."""
        row = self.episodes[number]
        return row.seed, self.provenance[row.provenance].value()

    def records(self) -> Iterator[dict[str, Any]]:
        """The metadata of every episode as plain data, with its provenance."""
        for row in self.episodes:
            provenance = self.provenance[row.provenance].model_dump()
            yield {**row.model_dump(by_alias=True), "provenance": provenance}


def new_part_id(version: int) -> str:
    """A new unique name; names sort by version."""
    return f"p{version:08d}-{secrets.token_hex(4)}"


def part_version(part: str) -> int:
    """The version that a part was written for."""
    return int(part.removeprefix("p").partition("-")[0])


def write_part(
    root: Path, part: str, schema: Schema, episodes: Sequence[Episode], level: int
) -> PartEntry:
    """Write episodes as `parts/<part>`: in a staging folder, synced, then renamed.

    The staging folder is locked while it is written: one that is not belongs to a killed writer.
    """
    staging = root / "tmp" / hosts.staging_name(part)
    with atomic.translate_os_errors(root), contextlib.ExitStack() as stack:
        while not _staged(staging, stack):
            pass  # another process deleted the folder before it was locked
        try:
            entry = _fill(staging, part, schema, episodes, level)
            staging.rename(root / "parts" / part)
        except BaseException:
            atomic.remove_tree(staging)
            raise
        atomic.sync(root / "parts")
        return entry


def _staged(staging: Path, stack: contextlib.ExitStack) -> bool:
    """Create the folder and lock it until the stack is closed; False if it was deleted."""
    staging.mkdir(exist_ok=True)
    try:
        granted = stack.enter_context(atomic.FolderLock(staging, exclusive=True))
    except FileNotFoundError:
        return False
    return granted and staging.exists()


def discard_part(root: Path, part: str) -> None:
    """Delete a part that was written, but could not be committed."""
    with contextlib.suppress(OSError):
        staging = root / "tmp" / hosts.staging_name(part)
        (root / "parts" / part).rename(staging)  # readers see the whole part or none
        atomic.remove_tree(staging)


def _fill(
    folder: Path, part: str, schema: Schema, episodes: Sequence[Episode], level: int
) -> PartEntry:
    columns = [episode.arrays() for episode in episodes]
    folders = {folder}
    records: dict[str, ArrayRecord] = {}
    group = atomic.json_bytes({"zarr_format": 3, "node_type": "group", "attributes": {}})
    for path, spec in schema.arrays():
        target = folder / path
        target.mkdir(parents=True)
        for parent in target.parents:
            if parent == folder:
                break
            if parent not in folders:  # "obs", "info" and nested keys are groups
                atomic.write_file(parent / "zarr.json", group, durably=False)
                folders.add(parent)
        folders.add(target)
        records[path] = write_array(target, [column[path] for column in columns], spec, level)
    attributes = _attributes(part, episodes, records)
    document = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"wmtk": attributes.model_dump(by_alias=True)},
    }
    data = atomic.json_bytes(document)
    atomic.write_file(folder / "zarr.json", data, durably=False)
    atomic.sync_tree(folder)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    return attributes.entry(size, hashlib.sha256(data).hexdigest())


def _attributes(
    part: str, episodes: Sequence[Episode], records: Mapping[str, ArrayRecord]
) -> PartAttributes:
    provenance: list[ProvenanceRecord] = []
    rows = []
    start = 0
    for episode in episodes:
        record = ProvenanceRecord.of(episode.provenance)
        if record not in provenance:
            provenance.append(record)
        rows.append(
            EpisodeRow(
                id=episode.id,
                start=start,
                length=episode.length,
                **{"return": episode.total_reward},
                terminated=episode.terminated,
                truncated=episode.truncated,
                seed=episode.seed,
                provenance=provenance.index(record),
            )
        )
        start += episode.length + 1
    return PartAttributes(
        part=part,
        created=atomic.timestamp(),
        episodes=tuple(rows),
        provenance=tuple(provenance),
        arrays=dict(records),
    )


class _Attributes(Document):
    wmtk: PartAttributes


class _Group(Document):
    """A part's zarr.json."""

    attributes: _Attributes


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
