"""`DatasetState`: the parts of a version, and the records and snapshots that define it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, model_validator

from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.part import MAX_EPISODES, PART_ID, Count, PartEntry, PartId, part_version
from wmtk.documents import Document, Items, Text
from wmtk.errors import CorruptDatasetError

RECORD_NAME = re.compile(r"([0-9]{8,})\.json")
SNAPSHOT_NAME = re.compile(r"([0-9]{8,})\.snapshot\.json")
D = TypeVar("D", "LogRecord", "Snapshot")
LOG_HINT = (
    "The dataset was copied incompletely or damaged. Copy it again from its source; "
    "if there is none, `wmtk data repair` keeps what is whole."
)


Version = Annotated[int, Field(ge=0)]


class Totals(Document):
    """Sizes of a list of parts; a list with missing entries does not match them."""

    parts: Count
    episodes: Count
    steps: Count

    @classmethod
    def of(cls, parts: Sequence[PartEntry]) -> Totals:
        episodes = sum(len(entry.ids) for entry in parts)
        return cls(parts=len(parts), episodes=episodes, steps=sum(entry.steps for entry in parts))


def require_consistent(
    parts: Sequence[PartEntry], totals: Totals | None = None, next_episode: int = MAX_EPISODES
) -> None:
    """Raise ValueError unless these can be the parts of one version, in order."""
    stop = 0
    for entry in parts:
        if entry.first < stop:
            raise ValueError(
                f"the episodes of {entry.part} begin at number {entry.first}, though "
                f"the part before it ends at {stop}"
            )
        stop = entry.stop
    if stop > next_episode:
        raise ValueError(f"episodes up to number {stop}, but next_episode is {next_episode}")
    if len({entry.part for entry in parts}) < len(parts):
        raise ValueError("a part is named twice")
    if totals is not None and totals != Totals.of(parts):
        raise ValueError(
            f"totals of {totals.parts} parts, {totals.episodes} episodes and "
            f"{totals.steps} steps, which the parts do not have"
        )


class LogRecord(Document):
    """A commit: `log/<version>.json`."""

    version: Version
    why: Text
    add: Items[PartEntry]
    remove: Items[PartId]

    def after(self, state: DatasetState, path: Path) -> DatasetState:
        """The state that this commit leads to; raise unless it follows from `state`."""
        if problem := self._contradiction(state):
            raise CorruptDatasetError(
                f"{path} does not follow from version {state.version}: {problem}.", LOG_HINT, path
            )
        return state.apply(self.version, self.add, self.remove)

    def _contradiction(self, state: DatasetState) -> str:
        """Why the commit cannot follow `state`; empty if it can."""
        removed = frozenset(self.remove)
        if len(removed) < len(self.remove):
            return "a part is removed twice"
        next_episode = state.next_episode
        for entry in self.add:
            if not 0 <= entry.first <= next_episode:
                return "an episode has a number that was never assigned"
            next_episode = max(next_episode, entry.stop)
        if self.why in ("append", "evict"):
            if bool(self.add) != (self.why == "append") or not (self.add or self.remove):
                return f"{len(self.add)} parts are added"
            firsts = [entry.first for entry in self.add]
            stops = [entry.stop for entry in self.add]
            if firsts != [state.next_episode, *stops][: len(firsts)]:
                return f"the next episode has the number {state.next_episode}"
            if removed != {entry.part for entry in state.parts[: len(removed)]}:
                return "the parts that are removed are not the oldest"
        if self.why == "cut":
            oldest = state.parts[:1]
            if [entry.part for entry in oldest] != list(self.remove) or len(self.add) != 1:
                return "the part that is cut is not the oldest"
            left, whole = _joined(self.add), _joined(oldest)
            if left[0] <= whole[0] or left != _without(whole, left[0] - whole[0]):
                return "the part that is cut does not contain the last of the same episodes"
        if self.why == "compact":
            sources = [entry for entry in state.parts if entry.part in removed]
            if len(self.add) != 1 or len(sources) < max(1, len(removed)):
                return "the parts that are joined are not there"
            if _joined(sources) != _joined(self.add):
                return "the joined part does not hold the same episodes"
        return ""


def _joined(entries: Sequence[PartEntry]) -> tuple[Any, ...]:
    """The number of the first episode, and the columns of all."""
    columns = ("ids", "lengths", "returns", "ends")
    return entries[0].first, *[
        [value for entry in entries for value in getattr(entry, column)] for column in columns
    ]


def _without(joined: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """The result of `_joined` without the first `count` episodes."""
    first, *columns = joined
    return first + count, *[column[count:] for column in columns]


class Snapshot(Document):
    """A whole state: `log/<version>.snapshot.json`."""

    version: Version
    parts: Items[PartEntry]
    removed: Items[PartId]
    next_episode: Count
    totals: Totals | None = None  # older snapshots have none

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        require_consistent(self.parts, self.totals, self.next_episode)
        if not frozenset(self.removed).isdisjoint(entry.part for entry in self.parts):
            raise ValueError("a part is both live and removed")
        return self

    @classmethod
    def of(cls, state: DatasetState) -> Snapshot:
        return cls(
            version=state.version,
            parts=state.parts,
            removed=tuple(sorted(state.removed)),
            next_episode=state.next_episode,
            totals=Totals.of(state.parts),
        )

    def state(self) -> DatasetState:
        return DatasetState(self.version, self.parts, frozenset(self.removed), self.next_episode)


@dataclass(frozen=True)
class DatasetState:
    """The parts of one version, in order, and the removed ones whose files may still be there."""

    version: int
    parts: tuple[PartEntry, ...] = ()
    removed: frozenset[str] = frozenset()
    next_episode: int = 0  # how many episodes were ever committed

    @cached_property
    def steps(self) -> int:
        return sum(entry.steps for entry in self.parts)

    @property
    def live(self) -> frozenset[str]:
        return frozenset(entry.part for entry in self.parts)

    def parts_of_lost_versions(self, present: Iterable[str]) -> list[str]:
        """Parts on disk that prove that records after this version are lost.

        The name of a part has the version after the newest one at the time of writing. A part of
        a version beyond the next one that no record names belongs to a missing end of the log.
        """
        return [name for name in self.orphans(present) if part_version(name) > self.version + 1]

    def orphans(self, present: Iterable[str]) -> list[str]:
        """The parts on disk that this version does not name."""
        known = self.live | self.removed
        return sorted(name for name in present if name not in known and PART_ID.fullmatch(name))

    def apply(self, version: int, add: Iterable[PartEntry], remove: Iterable[str]) -> DatasetState:
        """The state after a commit."""
        removed = frozenset(remove)
        added = list(add)
        parts = [entry for entry in self.parts if entry.part not in removed] + added
        parts.sort(key=lambda entry: entry.first)
        next_episode = max([self.next_episode, *[entry.stop for entry in added]])
        return DatasetState(version, tuple(parts), self.removed | removed, next_episode)


@dataclass(frozen=True)
class Commit:
    """The parts that a commit adds and removes; `why` is its kind: append, evict, compact, …"""

    why: str
    add: tuple[PartEntry, ...] = ()
    remove: tuple[str, ...] = ()


def parse_log_file(kind: type[D], path: Path, version: int) -> D:
    """Read and validate a record or a snapshot; `version` is that of the file's name."""
    data = atomic.read_bytes(path, limit=atomic.MAX_STATE_BYTES)
    document = kind.read(
        atomic.verify_checksum(atomic.parse_json(data, path), path), path, LOG_HINT
    )
    if document.version != version:
        raise CorruptDatasetError(
            f"{path} is a record of version {document.version}.", LOG_HINT, path
        )
    return document
