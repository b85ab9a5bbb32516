"""Parts: immutable folders of zarr arrays that hold whole episodes."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from wmtk.datasets.episode import Episode, Provenance, ProvenanceRecord
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, hosts
from wmtk.datasets.storage.shard import (
    ArrayRecord,
    write_array,
)
from wmtk.documents import Document, Items, Text
from wmtk.errors import CorruptDatasetError

PART_ID = re.compile(r"p[0-9]{8,64}-[0-9a-f]{8}")
MAX_PART_ROWS = 2**31
MAX_EPISODES = 2**62  # numbers stay within int64

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
        """The number of its last episode plus 1."""
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
        stored = {"part": self.part, **self._columns()}
        if fields := [key for key, value in stored.items() if value != getattr(entry, key)]:
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
