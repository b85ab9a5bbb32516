"""The commit log: which parts make up each version of a dataset.

A commit is one file, `log/<version>.json`, created exclusively and complete in one step. It is
written last: readers ignore parts that no record names. From time to time the whole state is
written as `log/<version>.snapshot.json`, and records that two snapshots cover are deleted, which
bounds the size of the folder and the time to open a dataset.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
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
SNAPSHOT_EVERY = 64  # records, or a quarter of the live parts if that is more
_HINT = (
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
                f"{path} does not follow from version {state.version}: {problem}.", _HINT, path
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
                return "the part that is cut does not hold the last of the same episodes"
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
    """The same without the first `count` episodes."""
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
            raise ValueError("a part is both there and removed")
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
    document = kind.read(atomic.verify_checksum(atomic.parse_json(data, path), path), path, _HINT)
    if document.version != version:
        raise CorruptDatasetError(f"{path} is a record of version {document.version}.", _HINT, path)
    return document


class CommitLog:
    """Reads and extends the log of one dataset."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "log"

    # --- reading ---

    def _listing(self) -> tuple[list[int], list[int]]:
        """The versions that have a record and those that have a snapshot, ascending."""
        records, snapshots = [], []
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise atomic.unreadable_error(self.folder, error) from error
        for name in names:
            if match := SNAPSHOT_NAME.fullmatch(name):
                snapshots.append(int(match[1]))
            elif match := RECORD_NAME.fullmatch(name):
                records.append(int(match[1]))
        return sorted(records), sorted(snapshots)

    def read(self, since: DatasetState | None = None, upto: int | None = None) -> DatasetState:
        """The newest state (or that of version `upto`), starting from `since` where possible."""
        for attempt in range(5):
            try:
                return self._read(since, upto)
            except FileNotFoundError as error:
                # A writer deleted records after the folder was listed: list it again.
                if not self.root.exists():
                    raise atomic.moved_error(self.root) from error
                if attempt == 4:
                    path = Path(error.filename)
                    raise CorruptDatasetError(
                        f"{path} is missing, or a later snapshot that replaces it.", _HINT, path
                    ) from error
        raise AssertionError("unreachable")

    def _read(self, since: DatasetState | None, upto: int | None) -> DatasetState:
        records, snapshots = self._listing()
        head = max([0, *records, *snapshots])
        target = head if upto is None else upto
        if target > head:
            raise CorruptDatasetError(f"{self.root} has no version {target}, only {head}.")
        present = set(records)
        usable = [version for version in snapshots if version <= target]
        state = since if since is not None and since.version <= target else None
        if state is None or not present.issuperset(range(state.version + 1, target + 1)):
            state = self._load_snapshot(usable[-1]) if usable else DatasetState(0)
        for version in range(state.version + 1, target + 1):
            path = self.record_path(version)
            if version not in present:
                raise FileNotFoundError(2, "missing log record", str(path))
            state = parse_log_file(LogRecord, path, version).after(state, path)
        try:
            require_consistent(state.parts)
        except ValueError as error:
            message = f"{self.folder} contradicts itself at version {state.version}: {error}."
            raise CorruptDatasetError(message, _HINT, self.folder) from error
        return state

    def record_path(self, version: int) -> Path:
        return self.folder / f"{version:08d}.json"

    def snapshot_path(self, version: int) -> Path:
        return self.folder / f"{version:08d}.snapshot.json"

    def _load_snapshot(self, version: int) -> DatasetState:
        return parse_log_file(Snapshot, self.snapshot_path(version), version).state()

    def require_unnamed(self, state: DatasetState, orphans: Collection[str]) -> None:
        """Raise if an earlier file of the log names parts that a later snapshot leaves out.

        Parts that no file names belong to a writer that was killed before its commit.
        """
        records, snapshots = self._listing()
        named: dict[str, Path] = {}
        removed = set(state.removed)
        for version in sorted({*records, *snapshots}):
            if version > state.version:
                break
            with contextlib.suppress(FileNotFoundError, CorruptDatasetError):  # not read otherwise
                if version in snapshots:
                    before = self._load_snapshot(version)
                    named |= dict.fromkeys(before.live, self.snapshot_path(version))
                    removed |= before.removed
            with contextlib.suppress(FileNotFoundError, CorruptDatasetError):
                if version in records:
                    record = parse_log_file(LogRecord, self.record_path(version), version)
                    added = [entry.part for entry in record.add]
                    named |= dict.fromkeys(added, self.record_path(version))
                    removed |= frozenset(record.remove)
        if lost := sorted(named.keys() & set(orphans) - removed):
            raise CorruptDatasetError(
                f"{named[lost[0]]} names parts/{lost[0]}, which a later snapshot has left out.",
                _HINT,
                named[lost[0]],
            )

    # --- writing ---

    def commit(
        self, state: DatasetState, plan: Callable[[DatasetState], Commit | None]
    ) -> DatasetState:
        """Commit what `plan` returns for the newest state; None means no commit.

        If another process commits the same version first, the log is read and `plan` called
        again: it must check that the parts it removes are still live.
        """
        while True:
            state = self.read(since=state)
            change = plan(state)
            if change is None:
                return state
            version = state.version + 1
            add = _numbered(change.add, state.next_episode)
            record = {
                "version": version,
                "why": change.why,
                "time": atomic.timestamp(),
                "writer": f"{socket.gethostname()}:{os.getpid()}",
                "add": [entry.model_dump() for entry in add],
                "remove": change.remove,
            }
            try:
                with atomic.translate_os_errors(self.root):
                    path = self.record_path(version)
                    atomic.create_exclusively(path, atomic.json_bytes(atomic.with_checksum(record)))
            except FileExistsError:
                continue
            if self._was_overtaken(version, add, change.remove):
                path.unlink(missing_ok=True)
                continue
            return state.apply(version, add, change.remove)

    def _was_overtaken(self, version: int, add: Iterable[PartEntry], remove: Iterable[str]) -> bool:
        """Whether a new record is ignored because a snapshot already covers its version.

        Between reading the log and creating the record other processes may commit the same version
        and replace its record by snapshots, which frees the name.
        """
        _, snapshots = self._listing()
        if not snapshots or snapshots[-1] < version:
            return False
        newest = self.read()
        known = newest.live | newest.removed
        ignored = [e for e in add if e.part not in known and self._has_files(e.part)]
        return bool(ignored) or not newest.live.isdisjoint(remove)

    def _has_files(self, part: str) -> bool:
        return (self.root / "parts" / part).exists()

    def snapshot_if_due(self, state: DatasetState) -> DatasetState:
        """Write a snapshot once there are many records after the last one.

        The interval grows with the number of parts, which bounds the cost per commit.
        """
        _, snapshots = self._listing()
        newest = snapshots[-1] if snapshots else 0
        if state.version - newest < max(SNAPSHOT_EVERY, len(state.parts) // 4):
            return state
        return self.snapshot(state)

    def snapshot(self, state: DatasetState) -> DatasetState:
        """Write the state as a snapshot and delete records and snapshots that two others cover."""
        on_disk = [name for name in state.removed if self._has_files(name)]
        state = replace(state, removed=frozenset(on_disk))
        document = atomic.with_checksum(Snapshot.of(state).model_dump())
        with atomic.translate_os_errors(self.root):
            atomic.replace_file(self.snapshot_path(state.version), atomic.json_bytes(document))
            records, snapshots = self._listing()
            earlier = [version for version in snapshots if version < state.version]
            if earlier:
                for version in records:
                    if version <= earlier[-1]:
                        self.record_path(version).unlink(missing_ok=True)
                for version in earlier[:-1]:
                    self.snapshot_path(version).unlink(missing_ok=True)
        return state


def _numbered(entries: Iterable[PartEntry], next_episode: int) -> tuple[PartEntry, ...]:
    """The entries, with consecutive episode numbers assigned to new ones."""
    numbered = []
    for entry in entries:
        if entry.first < 0:
            entry = entry.numbered(next_episode)
            next_episode += len(entry.ids)
        numbered.append(entry)
    return tuple(numbered)
