"""What can be read of a dataset's log and tags, and the state that follows from it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from wmtk.datasets.integrity.salvage import MAX_HEALED_JSON, unflipped
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.commit_log import (
    RECORD_NAME,
    SNAPSHOT_NAME,
    DatasetState,
    LogRecord,
    Snapshot,
    checked,
)
from wmtk.datasets.storage.part import PartEntry
from wmtk.datasets.storage.retention import Tag, checked_tag
from wmtk.errors import CorruptDatasetError, DatasetError


@dataclass
class SealedFiles:
    """Reads JSON files with a checksum and notes what is wrong with those that are damaged."""

    heal: bool = False  # whether to undo single flipped bits; that takes seconds per file
    damaged: dict[Path, str] = field(default_factory=dict)
    healed: dict[Path, bytes] = field(default_factory=dict)
    vanished: bool = False

    def load(self, path: Path) -> dict[str, Any] | None:
        try:
            data = atomic.read_bytes(path, limit=atomic.MAX_STATE_BYTES)
        except FileNotFoundError:
            self.vanished = True  # a writer pruned it since it was listed
            return None
        except OSError as error:
            self.damaged[path] = f"cannot be read ({error.strerror})"
            return None
        except CorruptDatasetError as error:
            self.damaged[path] = _shortly(error, path)
            return None
        try:
            return content(data, path)
        except CorruptDatasetError as error:
            if self.heal and (right := unflipped(data, _is_sealed, MAX_HEALED_JSON)):
                self.healed[path] = right
                return content(right, path)
            self.damaged[path] = _shortly(error, path)
            return None


def content(data: bytes, path: Path) -> dict[str, Any]:
    return atomic.verify_checksum(atomic.parse_json(data, path), path)


def _is_sealed(data: bytes) -> bool:
    try:
        content(data, Path())
    except CorruptDatasetError:
        return False
    return True


def _shortly(error: DatasetError, path: Path) -> str:
    """The message without the path, which is shown beside it."""
    return error.message.removeprefix(f"{path} ").rstrip(".")


# --- the log ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogScan:
    """Everything that is readable in the log folder."""

    folder: Path
    head: int  # the newest version that a file name tells of
    records: dict[int, LogRecord]
    snapshots: dict[int, DatasetState]
    files: SealedFiles

    @cached_property
    def base(self) -> DatasetState:
        """The newest snapshot that is readable."""
        return self.snapshots[max(self.snapshots)] if self.snapshots else DatasetState(0)

    def gaps(self) -> list[range]:
        """The versions after the newest snapshot whose records are missing or unreadable."""
        known = [v for v in sorted(self.records) if self.base.version < v <= self.head]
        edges = [self.base.version, *known, self.head + 1]
        return [range(low + 1, high) for low, high in pairwise(edges) if high > low + 1]

    def exact(self) -> DatasetState | None:
        """The newest state, if what is readable tells it without doubt."""
        if self.gaps():
            return None
        state = self.base
        for version in range(state.version + 1, self.head + 1):
            record = self.records[version]
            state = state.apply(version, record.add, record.remove)
        return state

    def likely(self, tags: dict[str, Tag]) -> tuple[DatasetState, list[range]]:
        """The state as far as it can be told, and the episode numbers nobody accounts for.

        Of two parts with the same episode numbers the later one wins: it was compacted from the
        earlier one by a record that is lost.
        """
        state, holes = self.base, []
        for version in sorted(v for v in self.records if v > self.base.version):
            change = self.records[version]
            for entry in change.add:
                if entry.first > state.next_episode:
                    holes.append(range(state.next_episode, entry.first))
            replaced = [e.part for e in state.parts if any(_overlap(e, a) for a in change.add)]
            state = state.apply(version, change.add, [*change.remove, *replaced])
        for tag in sorted(tags.values(), key=lambda tag: tag.version):
            known = state.live | state.removed
            new = [e for e in tag.parts if e.part not in known]
            new = [e for e in new if not any(_overlap(e, other) for other in state.parts)]
            state = state.apply(state.version, new, ())
        newest = max([self.head, *[tag.version for tag in tags.values()]])
        tagged = {entry.part for tag in tags.values() for entry in tag.parts}
        removed = state.removed | (tagged - state.live)
        return replace(state, version=newest + 1, removed=removed), holes

    @cached_property
    def ids(self) -> frozenset[str]:
        """Every episode that the readable log knows of, live or removed since."""
        live = [entry for state in self.snapshots.values() for entry in state.parts]
        added = [entry for change in self.records.values() for entry in change.add]
        return frozenset(name for entry in [*live, *added] for name in entry.ids)


def _overlap(one: PartEntry, other: PartEntry) -> bool:
    return (
        one.first < other.first + len(other.ids)
        and other.first < one.first + len(one.ids)
        and one.part != other.part
    )


def scan_log(root: Path, *, heal: bool = False) -> LogScan:
    """Read every record and every snapshot."""
    for _ in range(5):
        scan = _scan(root / "log", SealedFiles(heal))
        if not scan.files.vanished:
            break
    return scan


def _scan(folder: Path, files: SealedFiles) -> LogScan:
    records: dict[int, LogRecord] = {}
    snapshots: dict[int, DatasetState] = {}
    head = 0
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
        match = SNAPSHOT_NAME.fullmatch(name) or RECORD_NAME.fullmatch(name)
        if match is None:
            continue
        path, version = folder / name, int(match[1])
        head = max(head, version)
        document = files.load(path)
        if document is None:
            continue
        try:
            if SNAPSHOT_NAME.fullmatch(name):
                snapshots[version] = checked(Snapshot, document, path, version).state()
            else:
                records[version] = checked(LogRecord, document, path, version)
        except CorruptDatasetError as error:
            files.damaged[path] = _shortly(error, path)
    _drop_contradictions(folder, records, snapshots, files)
    return LogScan(folder, head, records, snapshots, files)


def _drop_contradictions(
    folder: Path,
    records: dict[int, LogRecord],
    snapshots: dict[int, DatasetState],
    files: SealedFiles,
) -> None:
    """Count as damaged what does not follow from the files before it.

    Nothing can be said of what comes after a gap.
    """

    def drop(version: int, what: str, *, snapshot: bool = False) -> None:
        (snapshots if snapshot else records).pop(version)
        name = f"{version:08d}.snapshot.json" if snapshot else f"{version:08d}.json"
        files.damaged[folder / name] = what

    state: DatasetState | None = DatasetState(0)
    for version in sorted({*records, *snapshots}):
        if version in records and state is not None and version == state.version + 1:
            path = folder / f"{version:08d}.json"
            try:
                state = records[version].after(state, path)
            except CorruptDatasetError as error:
                drop(version, _shortly(error, path))
                state = None
        elif state is None or version > state.version:
            state = None
        if version not in snapshots:
            continue
        snapshot = snapshots[version]
        if state is not None and state.live > snapshot.live:
            drop(version, "leaves out parts that the records before it name", snapshot=True)
            continue
        if state is not None and state.parts != snapshot.parts:
            wrong = {entry.part for entry in {*state.parts} ^ {*snapshot.parts}}
            for before in [v for v in records if v <= version]:
                if any(entry.part in wrong for entry in records[before].add):
                    drop(before, "contradicts the snapshots after it")
        state = snapshot


# --- tags -------------------------------------------------------------------------------------


def scan_tags(root: Path, *, heal: bool = False) -> tuple[dict[str, Tag], SealedFiles]:
    """Every readable tag by its name, and what is wrong with the others."""
    folder = root / "tags"
    files = SealedFiles(heal)
    tags: dict[str, Tag] = {}
    for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
        if name.startswith(".") or not name.endswith(".json") or name == "zarr.json":
            continue
        path = folder / name
        document = files.load(path)
        if document is None:
            continue
        try:
            tags[path.stem] = checked_tag(document, path, path.stem)
        except CorruptDatasetError as error:
            files.damaged[path] = _shortly(error, path)
    return tags, files
