"""Read the intact files of a commit log and of tags, and list the damaged ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from wmtk.datasets.storage.dataset_state import (
    RECORD_NAME,
    SNAPSHOT_NAME,
    DatasetState,
    LogRecord,
    Snapshot,
    parse_log_file,
)
from wmtk.datasets.storage.part import PartEntry
from wmtk.datasets.storage.retention import Tag, parse_tag
from wmtk.errors import CorruptDatasetError, DatasetError

_READ_ATTEMPTS = 5  # of a log that writers prune at the same time


class LogScan:
    """The readable files of the folder `log`, and the faults of the others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head = 0  # the newest version that a file name has
        self.records: dict[int, LogRecord] = {}
        self.snapshots: dict[int, DatasetState] = {}
        self.damaged: dict[Path, str] = {}
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            match = SNAPSHOT_NAME.fullmatch(path.name) or RECORD_NAME.fullmatch(path.name)
            if match is None:
                continue
            version = int(match[1])
            self.head = max(self.head, version)
            try:
                if SNAPSHOT_NAME.fullmatch(path.name):
                    self.snapshots[version] = parse_log_file(Snapshot, path, version).state()
                else:
                    self.records[version] = parse_log_file(LogRecord, path, version)
            except FileNotFoundError:
                raise  # a writer pruned it
            except (OSError, DatasetError) as error:
                self.damaged[path] = describe_fault(error, path)[1]
        self._drop_contradictions()

    def _drop_contradictions(self) -> None:
        """Mark files as damaged that contradict earlier ones."""
        state: DatasetState | None = DatasetState(0)  # None after a gap
        for version in sorted({*self.records, *self.snapshots}):
            if state is not None and version != state.version:
                state = self._follow(state, version)
            if (snapshot := self.snapshots.get(version)) is None:
                continue
            if state is not None and state.live > snapshot.live:
                what = "leaves out parts that the records before it name"
                self.damaged[self.folder / f"{version:08d}.snapshot.json"] = what
                del self.snapshots[version]
                continue
            if state is not None and state.parts != snapshot.parts:
                differing = {entry.part for entry in {*state.parts} ^ {*snapshot.parts}}
                for earlier in [v for v in self.records if v <= version]:
                    if any(entry.part in differing for entry in self.records[earlier].add):
                        self._drop_record(earlier, "contradicts the snapshots after it")
            state = snapshot

    def _follow(self, state: DatasetState, version: int) -> DatasetState | None:
        """The state after the record of `version`, or None if it does not follow from `state`."""
        if version not in self.records or version != state.version + 1:
            return None
        path = self.folder / f"{version:08d}.json"
        try:
            return self.records[version].after(state, path)
        except CorruptDatasetError as error:
            self._drop_record(version, describe_fault(error, path)[1])
            return None

    def _drop_record(self, version: int, what: str) -> None:
        del self.records[version]
        self.damaged[self.folder / f"{version:08d}.json"] = what

    @cached_property
    def base(self) -> DatasetState:
        """The newest readable snapshot."""
        return self.snapshots[max(self.snapshots)] if self.snapshots else DatasetState(0)

    def gaps(self) -> list[range]:
        """The versions after the newest snapshot without a readable record."""
        readable = [v for v in sorted(self.records) if self.base.version < v <= self.head]
        edges = [self.base.version, *readable, self.head + 1]
        return [range(low + 1, high) for low, high in pairwise(edges) if high > low + 1]

    def exact(self) -> DatasetState | None:
        """The newest state, or None if files that determine it are missing or damaged."""
        if self.gaps():
            return None
        state = self.base
        for version in range(state.version + 1, self.head + 1):
            state = state.apply(version, self.records[version].add, self.records[version].remove)
        return state

    def estimate(self, tags: dict[str, Tag]) -> tuple[DatasetState, list[range]]:
        """The state as far as readable files determine it, and the missing episode numbers.

        Of two parts with the same episode numbers the later one stays: a lost record compacted the
        earlier one into it.
        """
        state, missing = self.base, []
        for version in sorted(v for v in self.records if v > self.base.version):
            record = self.records[version]
            for entry in record.add:
                if entry.first > state.next_episode:
                    missing.append(range(state.next_episode, entry.first))
            replaced = [e.part for e in state.parts if any(_overlap(e, a) for a in record.add)]
            state = state.apply(version, record.add, [*record.remove, *replaced])
        newest = self.head
        for tag in sorted(tags.values(), key=lambda tag: tag.version):
            unknown = [e for e in tag.parts if e.part not in state.live | state.removed]
            add = [e for e in unknown if not any(_overlap(e, other) for other in state.parts)]
            state = state.apply(state.version, add, ())
            newest = max(newest, tag.version)
        tagged = {entry.part for tag in tags.values() for entry in tag.parts}
        removed = state.removed | (tagged - state.live)
        return replace(state, version=newest + 1, removed=removed), missing

    @cached_property
    def ids(self) -> frozenset[str]:
        """Every episode of the readable log, live or removed."""
        entries = [entry for state in self.snapshots.values() for entry in state.parts]
        entries += [entry for record in self.records.values() for entry in record.add]
        return frozenset(name for entry in entries for name in entry.ids)


def _overlap(one: PartEntry, other: PartEntry) -> bool:
    """Whether two parts have episode numbers in common."""
    return one.part != other.part and one.first < other.stop and other.first < one.stop


def scan_log(root: Path) -> LogScan:
    """Read every record and every snapshot, beside writers that prune the log."""
    for attempt in range(_READ_ATTEMPTS):
        try:
            return LogScan(root / "log")
        except FileNotFoundError:
            if attempt == _READ_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def scan_tags(root: Path) -> tuple[dict[str, Tag], dict[Path, str]]:
    """The readable tags by name, and the faults of the other files."""
    folder = root / "tags"
    tags: dict[str, Tag] = {}
    damaged: dict[Path, str] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        if path.name.startswith(".") or path.name == "zarr.json":
            continue
        try:
            tags[path.stem] = parse_tag(path, path.stem)
        except FileNotFoundError:
            continue  # deleted in the meantime
        except (OSError, DatasetError) as error:
            damaged[path] = describe_fault(error, path)[1]
    return tags, damaged


def describe_fault(error: Exception, path: Path) -> tuple[Path, str]:
    """The file that an error names (by default `path`), and its fault."""
    if isinstance(error, FileNotFoundError):
        return path, "is missing"
    if not isinstance(error, DatasetError):
        return path, f"cannot be read ({getattr(error, 'strerror', None) or error})"
    path = error.path or path
    return path, error.message.removeprefix(f"{path} ").rstrip(".")
