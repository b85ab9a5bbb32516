"""The commit log: which parts make up each version of a dataset.

A commit is one file, `log/<version>.json`, created exclusively and complete in one step. It is
written last: readers ignore parts that no record names. From time to time the whole state is
written as `log/<version>.snapshot.json`, and records that two snapshots cover are deleted, which
bounds the size of the folder and the time to open a dataset.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path

from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.dataset_state import (
    LOG_HINT,
    RECORD_NAME,
    SNAPSHOT_NAME,
    Commit,
    DatasetState,
    LogRecord,
    Snapshot,
    parse_log_file,
    require_consistent,
)
from wmtk.datasets.storage.part import PartEntry
from wmtk.errors import CorruptDatasetError

SNAPSHOT_EVERY = 64  # records, or a quarter of the live parts if that is more


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
                        f"{path} is missing, or a later snapshot that replaces it.", LOG_HINT, path
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
            raise CorruptDatasetError(message, LOG_HINT, self.folder) from error
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
            # Deleted or damaged files are ignored: `state` does not depend on them.
            with contextlib.suppress(FileNotFoundError, CorruptDatasetError):
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
                LOG_HINT,
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
        state = self.write_snapshot(state)
        with atomic.translate_os_errors(self.root):
            records, snapshots = self._listing()
            earlier = [version for version in snapshots if version < state.version]
            if earlier:
                for version in records:
                    if version <= earlier[-1]:
                        self.record_path(version).unlink(missing_ok=True)
                for version in earlier[:-1]:
                    self.snapshot_path(version).unlink(missing_ok=True)
        return state

    def write_snapshot(self, state: DatasetState) -> DatasetState:
        """Write the state as a snapshot; returns it without removed parts that are deleted."""
        on_disk = [name for name in state.removed if self._has_files(name)]
        state = replace(state, removed=frozenset(on_disk))
        document = atomic.with_checksum(Snapshot.of(state).model_dump())
        with atomic.translate_os_errors(self.root):
            atomic.replace_file(self.snapshot_path(state.version), atomic.json_bytes(document))
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
