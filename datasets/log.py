"""The commit log: which parts make up each version of a dataset.

A commit is one file, `log/<version>.json`, created exclusively and complete in one step; it is
written last, so a part that no record names does not exist for readers. Every so often the whole
state is written as `log/<version>.snapshot.json` and records that two snapshots cover are
deleted: opening stays quick and the folder small however long a dataset lives.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from wmtk.datasets import durable
from wmtk.datasets.part import PART_ID, PartEntry, part_version
from wmtk.errors import CorruptDatasetError

RECORD_NAME = re.compile(r"([0-9]{8,})\.json")
SNAPSHOT_NAME = re.compile(r"([0-9]{8,})\.snapshot\.json")
SNAPSHOT_EVERY = 64  # records, or a quarter of the live parts if that is more
_HINT = (
    "The dataset was copied incompletely or damaged. Copy it again from its source; "
    "if there is none, `wmtk data repair` keeps what is whole."
)


@dataclass(frozen=True)
class State:
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

    def unheard_of(self, present: Iterable[str]) -> list[str]:
        """Parts on disk that prove that records after this version are lost.

        A part is named by the version after the one that its writer knew, so that one of more
        than the next version and of no record belongs to a part of the log that is not there.
        """
        known = self.live | self.removed
        others = [name for name in present if PART_ID.fullmatch(name) and name not in known]
        return sorted(name for name in others if part_version(name) > self.version + 1)

    def apply(self, version: int, add: Iterable[PartEntry], remove: Iterable[str]) -> State:
        gone = frozenset(remove)
        kept = [entry for entry in self.parts if entry.part not in gone]
        added = list(add)
        parts = sorted(kept + added, key=lambda entry: entry.first)
        following = max([self.next_episode, *[entry.first + len(entry.ids) for entry in added]])
        return State(version, tuple(parts), self.removed | gone, following)


@dataclass(frozen=True)
class Change:
    """What a commit does. `why` is for people: append, evict, compact, repair, …"""

    why: str
    add: tuple[PartEntry, ...] = ()
    remove: tuple[str, ...] = ()


class Log:
    """Reads and extends the log of one dataset."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "log"

    # --- reading ---

    def _listing(self) -> tuple[list[int], list[int]]:
        """The versions that have a record and those that have a snapshot, ascending."""
        records, snapshots = [], []
        for name in os.listdir(self.folder):
            if match := SNAPSHOT_NAME.fullmatch(name):
                snapshots.append(int(match[1]))
            elif match := RECORD_NAME.fullmatch(name):
                records.append(int(match[1]))
        return sorted(records), sorted(snapshots)

    def read(self, since: State | None = None, upto: int | None = None) -> State:
        """The newest state (or that of version `upto`), starting from `since` where possible."""
        for attempt in range(5):
            try:
                return self._read(since, upto)
            except FileNotFoundError as error:
                # A writer pruned between our listing and our reading: list again.
                if attempt == 4:
                    path = Path(error.filename)
                    raise CorruptDatasetError(
                        f"{path} is missing, or a later snapshot that stands for it.", _HINT, path
                    ) from error
        raise AssertionError("unreachable")

    def _read(self, since: State | None, upto: int | None) -> State:
        records, snapshots = self._listing()
        head = max([0, *records, *snapshots])
        target = head if upto is None else upto
        if target > head:
            raise CorruptDatasetError(f"{self.root} has no version {target}, only {head}.")
        present = set(records)
        usable = [version for version in snapshots if version <= target]
        state = since if since is not None and since.version <= target else None
        if state is None or not present.issuperset(range(state.version + 1, target + 1)):
            state = self._load_snapshot(usable[-1]) if usable else State(0)
        for version in range(state.version + 1, target + 1):
            path = self.record_path(version)
            if version not in present:
                raise FileNotFoundError(2, "missing log record", str(path))
            document = self._load(path, version, {"add": list, "remove": list})
            add = [PartEntry.from_json(item, path) for item in document["add"]]
            state = state.apply(version, add, self._ids(document["remove"], path))
        return state

    def record_path(self, version: int) -> Path:
        return self.folder / f"{version:08d}.json"

    def snapshot_path(self, version: int) -> Path:
        return self.folder / f"{version:08d}.snapshot.json"

    def _load(self, path: Path, version: int, fields: Mapping[str, type]) -> dict[str, Any]:
        document = durable.unsealed(durable.parse(durable.read_bytes(path), path), path)
        if document.get("version") != version:
            found = document.get("version")
            raise CorruptDatasetError(f"{path} is a record of version {found}.", _HINT, path)
        if bad := [name for name, kind in fields.items() if type(document.get(name)) is not kind]:
            raise CorruptDatasetError(f"{path} has no usable {bad[0]!r}.", _HINT, path)
        return document

    def _load_snapshot(self, version: int) -> State:
        path = self.snapshot_path(version)
        fields = {"parts": list, "removed": list, "next_episode": int}
        document = self._load(path, version, fields)
        parts = tuple(PartEntry.from_json(item, path) for item in document["parts"])
        removed = frozenset(self._ids(document["removed"], path))
        return State(version, parts, removed, document["next_episode"])

    @staticmethod
    def _ids(names: list[Any], path: Path) -> list[str]:
        for name in names:
            if not isinstance(name, str) or not PART_ID.fullmatch(name):
                raise CorruptDatasetError(f"{path} names an impossible part {name!r}.", _HINT, path)
        return names

    # --- writing ---

    def commit(self, state: State, plan: Callable[[State], Change | None]) -> State:
        """Commit what `plan` makes of the newest state; None means that nothing is to be done.

        On a lost race the log is read again and `plan` is asked again: it must check that what
        it removes is still there.
        """
        while True:
            state = self.read(since=state)
            change = plan(state)
            if change is None:
                return state
            version = state.version + 1
            add = _numbered(change.add, state.next_episode)
            document = durable.sealed(
                {
                    "version": version,
                    "why": change.why,
                    "time": durable.now(),
                    "writer": f"{socket.gethostname()}:{os.getpid()}",
                    "add": [entry.to_json() for entry in add],
                    "remove": list(change.remove),
                }
            )
            try:
                with durable.writing(self.root):
                    path = self.record_path(version)
                    durable.create_exclusively(path, durable.to_bytes(document))
            except FileExistsError:
                continue
            if self._was_overtaken(version, add, change.remove):
                path.unlink(missing_ok=True)
                continue
            return state.apply(version, add, change.remove)

    def _was_overtaken(self, version: int, add: Iterable[PartEntry], remove: Iterable[str]) -> bool:
        """Whether a record that was just created came too late to count.

        A writer may be held up between reading the log and creating its record for so long that
        others commit the same version, and snapshots replace that record: its name is free then.
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

    def snapshot_if_due(self, state: State) -> State:
        """Write a snapshot when many records have piled up, and drop what two snapshots cover.

        The interval grows with the number of parts, so that the cost per commit does not.
        """
        _, snapshots = self._listing()
        newest = snapshots[-1] if snapshots else 0
        if state.version - newest < max(SNAPSHOT_EVERY, len(state.parts) // 4):
            return state
        return self.snapshot(state)

    def snapshot(self, state: State) -> State:
        """Write the state as a snapshot and delete the records and snapshots it makes needless."""
        kept = [name for name in state.removed if self._has_files(name)]
        state = replace(state, removed=frozenset(kept))
        document = durable.sealed(
            {
                "version": state.version,
                "parts": [entry.to_json() for entry in state.parts],
                "removed": sorted(state.removed),
                "next_episode": state.next_episode,
            }
        )
        with durable.writing(self.root):
            durable.replace_file(self.snapshot_path(state.version), durable.to_bytes(document))
            records, snapshots = self._listing()
            earlier = [version for version in snapshots if version < state.version]
            if earlier:
                for version in records:
                    if version <= earlier[-1]:
                        self.record_path(version).unlink(missing_ok=True)
                for version in earlier[:-1]:
                    self.snapshot_path(version).unlink(missing_ok=True)
        return state


def _numbered(entries: Iterable[PartEntry], following: int) -> tuple[PartEntry, ...]:
    """The entries with a number given to those that are new."""
    numbered = []
    for entry in entries:
        if entry.first < 0:
            entry = replace(entry, first=following)
            following += len(entry.ids)
        numbered.append(entry)
    return tuple(numbered)
