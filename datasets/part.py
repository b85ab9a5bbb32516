"""A part: whole episodes in one immutable folder of zarr arrays."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import durable
from wmtk.datasets.cache import ChunkCache
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.schema import Schema
from wmtk.datasets.shard import ArrayRecord, ShardReader, data_file, verify_files, write_array
from wmtk.errors import CorruptDatasetError, DatasetError

PART_ID = re.compile(r"p[0-9]{8,}-[0-9a-f]{8}")
_EPISODE_ID = re.compile(r"[0-9a-f]{16}")
MAX_PART_ROWS = 2**31
MAX_ARRAY_BYTES = 2**40  # of one array of a part, decoded
MAX_EPISODES = 2**62  # numbers stay within int64
WHOLE = -1  # in the place of a chunk number: the array as a whole


@dataclass(frozen=True)
class PartEntry:
    """What the commit log says of a part: enough to choose windows without opening it."""

    part: str
    # The number of its first episode, counted over all that were ever committed. Compaction
    # hands it on, so that episodes keep their numbers and their order. −1 until committed.
    first: int
    bytes: int  # of all files
    digest: str  # sha256 of the part's zarr.json, which has the checksums of everything else
    ids: tuple[str, ...]
    lengths: tuple[int, ...]  # in steps; an episode has one row more
    returns: tuple[float, ...]
    ends: tuple[int, ...]  # 1 terminated, 2 truncated, 3 both, 0 the recording was cut

    @cached_property
    def steps(self) -> int:
        return sum(self.lengths)

    @property
    def rows(self) -> int:
        return self.steps + len(self.lengths)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], path: Path) -> PartEntry:
        try:
            entry = cls(
                part=str(data["part"]),
                first=int(data["first"]),
                bytes=int(data["bytes"]),
                digest=str(data["digest"]),
                ids=tuple(str(i) for i in data["ids"]),
                lengths=tuple(int(n) for n in data["lengths"]),
                returns=tuple(float(r) for r in data["returns"]),
                ends=tuple(int(e) for e in data["ends"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CorruptDatasetError(
                f"{path} describes a part wrongly ({error!r}).", durable.HINT, path
            ) from error
        counts = {len(entry.ids), len(entry.lengths), len(entry.returns), len(entry.ends)}
        sane = (
            PART_ID.fullmatch(entry.part)
            and len(counts) == 1
            and entry.lengths
            and all(_EPISODE_ID.fullmatch(name) for name in entry.ids)
            and 0 <= entry.first < MAX_EPISODES
            and entry.bytes >= 0
            and set(entry.ends) <= {0, 1, 2, 3}
            and all(math.isfinite(value) for value in entry.returns)
            and min(entry.lengths) >= 1
            and entry.rows <= MAX_PART_ROWS
        )
        if not sane:
            raise CorruptDatasetError(
                f"{path} describes an impossible part {entry.part!r}.", durable.HINT, path
            )
        return entry


def new_part_id(version: int) -> str:
    """A fresh name that sorts by the version it was written at."""
    return f"p{version:08d}-{secrets.token_hex(4)}"


def part_version(part: str) -> int:
    """The version that a part was written for."""
    return int(part.removeprefix("p").partition("-")[0])


def write_part(
    root: Path, part: str, schema: Schema, episodes: Sequence[Episode], level: int
) -> PartEntry:
    """Write episodes as `parts/<part>`: in a staging folder, synced, then renamed.

    The staging folder is locked while it is written, so that a clean-up can tell a dead
    writer's folder from a live one's.
    """
    staging = root / "tmp" / part
    with durable.writing(root), contextlib.ExitStack() as stack:
        while not _staged(staging, stack):
            pass  # a clean-up took the folder before it was locked
        try:
            entry = _fill(staging, part, schema, episodes, level)
            staging.rename(root / "parts" / part)
        except BaseException:
            durable.remove_tree(staging)
            raise
        durable.sync(root / "parts")
        return entry


def _staged(staging: Path, stack: contextlib.ExitStack) -> bool:
    """Make the folder and lock it until the stack is left; False if it was taken away."""
    staging.mkdir(parents=True, exist_ok=True)
    try:
        granted = stack.enter_context(durable.lock_held(staging, exclusive=True))
    except FileNotFoundError:
        return False
    return granted and staging.exists()


def discard_part(root: Path, part: str) -> None:
    """Delete a part that was written, but could not be committed."""
    with contextlib.suppress(OSError):
        staging = root / "tmp" / part
        (root / "parts" / part).rename(staging)  # whole or gone, for those who list the parts
        durable.remove_tree(staging)


def _fill(
    folder: Path, part: str, schema: Schema, episodes: Sequence[Episode], level: int
) -> PartEntry:
    columns = [episode.arrays() for episode in episodes]
    folders = {folder}
    records: dict[str, ArrayRecord] = {}
    group = durable.to_bytes({"zarr_format": 3, "node_type": "group", "attributes": {}})
    for path, spec in schema.arrays():
        target = folder / path
        target.mkdir(parents=True)
        for parent in target.parents:
            if parent == folder:
                break
            if parent not in folders:  # "obs", "info" and nested keys are groups
                durable.write_file(parent / "zarr.json", group, durably=False)
                folders.add(parent)
        folders.add(target)
        rows = np.concatenate([column[path] for column in columns])
        records[path] = write_array(target, rows, spec, level)
    attributes = {"wmtk": _attributes(part, episodes, records)}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    data = durable.to_bytes(document)
    durable.write_file(folder / "zarr.json", data, durably=False)
    durable.sync_tree(folder)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    table = attributes["wmtk"]["episodes"]
    return PartEntry(
        part=part,
        first=-1,
        bytes=size,
        digest=hashlib.sha256(data).hexdigest(),
        ids=tuple(row["id"] for row in table),
        lengths=tuple(row["length"] for row in table),
        returns=tuple(row["return"] for row in table),
        ends=tuple(row["terminated"] + 2 * row["truncated"] for row in table),
    )


def _attributes(
    part: str, episodes: Sequence[Episode], records: Mapping[str, ArrayRecord]
) -> dict[str, Any]:
    """The part's own description: its episodes, who made them, the checksums of its files."""
    makers: list[dict[str, Any]] = []
    table = []
    start = 0
    for episode in episodes:
        maker = episode.provenance.to_json()
        if maker not in makers:
            makers.append(maker)
        table.append(
            {
                "id": episode.id,
                "start": start,
                "length": episode.length,
                "return": episode.total_reward,
                "terminated": episode.terminated,
                "truncated": episode.truncated,
                "seed": episode.seed,
                "provenance": makers.index(maker),
            }
        )
        start += episode.length + 1
    return {
        "part": part,
        "created": durable.now(),
        "episodes": table,
        "provenance": makers,
        "arrays": {path: asdict(record) for path, record in records.items()},
    }


def _description(
    document: Any, entry: PartEntry, path: Path
) -> tuple[dict[str, Any], dict[str, ArrayRecord]]:
    """A part's attributes and the records of its arrays, which must agree with the log."""
    try:
        attributes: dict[str, Any] = document["attributes"]["wmtk"]
        records = {name: ArrayRecord(**record) for name, record in attributes["arrays"].items()}
        numbers = [value for record in records.values() for value in vars(record).values()]
        table = [(row["id"], row["start"], row["length"]) for row in attributes["episodes"]]
        makers = [attributes["provenance"][row["provenance"]] for row in attributes["episodes"]]
        seeds = [row["seed"] for row in attributes["episodes"]]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        message = f"{path} does not describe a part ({error!r})."
        raise CorruptDatasetError(message, durable.HINT, path) from error
    rows = [length + 1 for length in entry.lengths]
    starts = [stop - count for stop, count in zip(accumulate(rows), rows, strict=True)]
    sane = (
        table == list(zip(entry.ids, starts, entry.lengths, strict=True))
        and all(isinstance(number, int) for number in numbers)
        and all(isinstance(maker, dict) for maker in makers)
        and all(seed is None or isinstance(seed, int) for seed in seeds)
    )
    if not sane:
        message = f"{path} lists other episodes or arrays than the commit log."
        raise CorruptDatasetError(message, durable.HINT, path)
    return attributes, records


@lru_cache
def _folders(paths: tuple[str, ...]) -> list[str]:
    """The folders of these arrays inside a part, outer ones first."""
    found = {str(folder) for path in paths for folder in [Path(path), *Path(path).parents]}
    return sorted(found - {"."})


class PartReader:
    """Reads one part, through a cache of decoded chunks if one is given."""

    def __init__(
        self, root: Path, schema: Schema, entry: PartEntry, cache: ChunkCache | None = None
    ) -> None:
        self.path = root / "parts" / entry.part
        self.schema = schema
        self.entry = entry
        self._cache = cache
        self._shards: dict[str, ShardReader] = {}
        self._specs = dict(schema.arrays())
        metadata = self.path / "zarr.json"
        if self.path.is_symlink():
            raise CorruptDatasetError(
                f"{self.path} is a symbolic link, which a dataset never contains.",
                "Replace it by the folder itself if you trust it.",
                self.path,
            )
        data = durable.read_bytes(metadata)
        if hashlib.sha256(data).hexdigest() != entry.digest:
            raise CorruptDatasetError(
                f"{metadata} was altered: it is not what the commit log recorded.",
                durable.HINT,
                metadata,
            )
        self.attributes, self._records = _description(
            durable.parse(data, metadata), entry, metadata
        )
        self._require_files()

    def _require_files(self) -> None:
        """Refuse a part of which only some files are there, naming them all."""
        # Every part is checked when it is opened: plain strings are several times faster than Path.
        problems = []
        root = str(self.path)
        for folder in _folders(tuple(self._specs)):
            if os.path.islink(f"{root}/{folder}"):  # noqa: PTH114
                problems.append(f"  {root}/{folder} is a symbolic link")
        for path, record in self._records.items():
            spec = self._specs.get(path)
            fits = spec is not None and spec.row_bytes * record.rows <= MAX_ARRAY_BYTES
            if spec is None or not fits or record.rows != self.entry.rows:
                problems.append(f"  {path} does not fit the dataset's schema")
                continue
            file = f"{root}/{path}/{data_file(spec)}"
            try:
                size = os.lstat(file).st_size
            except (FileNotFoundError, NotADirectoryError):
                problems.append(f"  {file} is missing")
                continue
            if size != record.bytes:
                problems.append(f"  {file} has {size} bytes instead of {record.bytes}")
        problems += [f"  {path} is missing" for path in self._specs if path not in self._records]
        if problems:
            raise CorruptDatasetError(
                f"{self.path} is incomplete:\n" + "\n".join(problems), durable.HINT, self.path
            )

    def shard(self, path: str) -> ShardReader:
        """The reader of one array, opened at first use."""
        reader = self._shards.get(path)
        if reader is None:
            reader = ShardReader(self.path / path, self._specs[path], self._records[path])
            self._shards[path] = reader
        return reader

    def _cached(self, path: str, number: int, load: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        if self._cache is None:
            return load()
        return self._cache.get((self.entry.part, path, number), load, at_once=number == WHOLE)

    def read_into(self, path: str, start: int, out: NDArray[Any]) -> None:
        """Fill `out` with the rows of one array from row `start` on."""
        shard = self.shard(path)
        size = shard.chunk_rows
        stop = start + len(out)
        for number in range(start // size, -(-stop // size)):
            base = number * size
            low, high = max(start, base), min(stop, base + size)
            chunk = self._cached(path, number, partial(shard.chunk, number))
            out[low - start : high - start] = chunk[low - base : high - base]

    def whole(self, path: str) -> NDArray[Any]:
        """All rows of one array, for data that fits into memory."""

        def load() -> NDArray[Any]:
            shard = self.shard(path)
            out = np.empty((self.entry.rows, *self._specs[path].shape), self._specs[path].dtype)
            shard.whole(out)
            return out

        return self._cached(path, WHOLE, load)

    def packed(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """All rows of the arrays that the fields of `dtype` name, as (rows, bytes of a record).

        A window of many small arrays is then one copy instead of one for each of them.
        """

        def load() -> NDArray[Any]:
            out = np.empty(self.entry.rows, dtype)
            for path in dtype.names or ():
                self.shard(path).whole(out[path])
            return out.view(np.uint8).reshape(-1, dtype.itemsize)

        return self._cached("packed", WHOLE, load)

    def rows(self, path: str, start: int, stop: int) -> NDArray[Any]:
        """Rows [start, stop) of one array."""
        self.shard(path)  # which refuses sizes that its file cannot hold, before they are allocated
        out = np.empty((stop - start, *self._specs[path].shape), self._specs[path].dtype)
        self.read_into(path, start, out)
        return out

    def episode(self, number: int) -> Episode:
        table = self.attributes["episodes"][number]
        start, stop = table["start"], table["start"] + table["length"] + 1
        arrays = {path: self.rows(path, start, stop) for path in self._specs}
        provenance = Provenance.from_json(self.attributes["provenance"][table["provenance"]])
        return Episode.from_arrays(arrays, table["seed"], provenance)

    def episodes(self) -> Iterator[Episode]:
        """Every episode, decoding each chunk once."""
        whole = {path: self.rows(path, 0, self.entry.rows) for path in self._specs}
        for table in self.attributes["episodes"]:
            span = slice(table["start"], table["start"] + table["length"] + 1)
            provenance = Provenance.from_json(self.attributes["provenance"][table["provenance"]])
            arrays = {path: rows[span] for path, rows in whole.items()}
            yield Episode.from_arrays(arrays, table["seed"], provenance)

    def problems(self) -> list[str]:
        """Everything wrong with the part, byte for byte and episode for episode."""
        found = []
        for path, record in self._records.items():
            found += verify_files(self.path / path, self._specs[path], record)
        if found:
            return found
        try:
            for episode, name in zip(self.episodes(), self.entry.ids, strict=True):
                episode.check(self.schema)
                if episode.id != name:
                    found.append(f"{self.path}: episode {name} does not match its content")
        except (DatasetError, ValueError, KeyError) as error:
            found.append(f"{self.path}: {error}")
        return found
