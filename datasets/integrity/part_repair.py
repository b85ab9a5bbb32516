"""Repairing parts: keep what is whole of damaged ones, take in those that no version names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wmtk.datasets.integrity.checks import QUARANTINE, Progress, markers, part_problems
from wmtk.datasets.integrity.salvage import Salvage, marked, salvage, unflipped
from wmtk.datasets.integrity.validate import orphans, parts_in
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, retention
from wmtk.datasets.storage.commit_log import Commit, CommitLog, DatasetState
from wmtk.datasets.storage.part import PartAttributes, PartEntry, new_part_id, write_part
from wmtk.datasets.storage.retention import Tag
from wmtk.datasets.storage.shard import COMPACT_LEVEL
from wmtk.errors import DatasetError


@dataclass(frozen=True)
class Action:
    """One thing that repair does (or would do), and the episodes that it could not keep."""

    path: Path
    what: str
    lost: tuple[str, ...] = ()
    is_unread: bool = False  # whether something is set aside whose episodes nothing names


class PartRepair:
    """The steps that concern parts, and what all steps of a repair share."""

    schema: Schema
    state: DatasetState
    tags: dict[str, Tag]

    def __init__(self, root: Path, dry_run: bool) -> None:
        self.root = root
        self.dry_run = dry_run
        self.log = CommitLog(root)
        self.actions: list[Action] = []
        self.holes: list[range] = []  # episode numbers that a lost record gave out
        self.known: frozenset[str] = frozenset()  # episodes that were ever committed
        self.replaced: set[str] = set()  # parts that went into the quarantine, or would go

    def act(
        self,
        path: Path,
        what: str,
        run: Callable[..., object] | None = None,
        *args: object,
        lost: Sequence[str] = (),
        is_unread: bool = False,
    ) -> None:
        """Note what is done, and do it unless this is a dry run."""
        self.actions.append(Action(path, what, tuple(lost), is_unread))
        if run is not None and not self.dry_run:
            run(*args)

    def commit(self, add: Sequence[PartEntry] = (), remove: Sequence[str] = ()) -> None:
        """Commit a change to the log; in a dry run, only in memory, for the steps after it."""
        if self.dry_run:
            following = self.state.next_episode
            add = [e.numbered(following) if e.first < 0 else e for e in add]
            self.state = self.state.apply(self.state.version + 1, add, remove)
            return
        change = Commit("repair", tuple(add), tuple(remove))
        self.state = self.log.commit(self.state, lambda _: change)

    def act_and_commit(
        self, path: Path, what: str, add: Sequence[PartEntry], remove: Sequence[str] = ()
    ) -> None:
        self.act(path, what)
        self.commit(add, remove)

    def set_aside(self, path: Path, name: str) -> None:
        """Move a file or folder into the quarantine."""
        folder = self.root / QUARANTINE
        if not folder.exists():
            folder.mkdir()
            marker = folder / "zarr.json"
            atomic.write_file(marker, atomic.json_bytes(markers(self.root, None, set())[marker]))
        target, number = folder / name, 1
        while target.exists() or target.is_symlink():
            number += 1
            target = folder / f"{name}-{number}"
        path.rename(target)
        atomic.sync(target.parent)
        atomic.sync(path.parent)

    def turn_back(self, path: Path, data: bytes) -> None:
        self.act(path, "turn back the one bit that flipped", atomic.replace_file, path, data)

    def retag(self, old: str, new: PartEntry | None) -> None:
        """Let the tags that name a damaged part name what is left of it."""
        for tag in list(self.tags.values()):
            if all(entry.part != old for entry in tag.parts):
                continue
            path = retention.tag_path(self.root, tag.name)
            parts = [new if entry.part == old else entry for entry in tag.parts]
            tag = tag.with_parts([entry for entry in parts if entry is not None])
            self.tags[tag.name] = tag
            if not self.dry_run:
                atomic.replace_file(path, tag.to_bytes())

    # --- parts ---

    def adopt_orphans(self) -> None:
        """Take in parts that no version names: of an append that died, or of a lost record."""
        for name in orphans(parts_in(self.root / "parts"), self.state, self.tags):
            folder = self.root / "parts" / name
            entry = _entry_on_disk(folder)
            if entry is None:
                what = "set aside, with episodes that nothing names: its zarr.json is damaged"
                self.act(folder, what, self.set_aside, folder, name, is_unread=True)
            elif self._broken(entry):
                self._adopt_rest(folder, entry)
            else:
                self._adopt(folder, entry)

    def _adopt(self, folder: Path, entry: PartEntry) -> None:
        run = _same_episodes(self.state.parts, entry)
        sources = [other.part for other in run]
        live = {name for other in self.state.parts for name in other.ids}
        if len(run) > 1 or any(not (folder.parent / part).exists() for part in sources):
            joined = entry.numbered(run[0].first)
            what = f"commit it in the place of the {len(run)} parts that it was joined from"
            self.act_and_commit(folder, what, [joined], sources)
        elif (live | self.known).intersection(entry.ids):
            what = "set aside: its episodes are, or were, in the dataset already"
            self.act(folder, what, self.set_aside, folder, folder.name)
        else:
            placed = entry.numbered(self._number(entry))
            self.known |= frozenset(entry.ids)
            what = f"take it in: {_counted(entry.ids)}"
            self.act_and_commit(folder, what, [placed])

    def _adopt_rest(self, folder: Path, entry: PartEntry) -> None:
        rest = salvage(self.root, self.schema, entry)
        fresh = [e for e in rest.episodes if e.id not in self.known]
        what = f"set aside, but take in what is whole: {_counted(fresh)}"

        def run() -> None:
            if fresh:
                self.commit([self._write(replace(rest, episodes=tuple(fresh)))])
            self.set_aside(folder, folder.name)

        lost = [name for name in rest.lost if name not in self.known]
        self.act(folder, what, run, lost=lost)

    def _number(self, entry: PartEntry) -> int:
        """The place that a lost record gave to a part, or −1 for the end."""
        for index, hole in enumerate(self.holes):
            if len(hole) >= len(entry.ids):
                self.holes[index] = range(hole.start + len(entry.ids), hole.stop)
                return hole.start
        return -1

    def _write(self, rest: Salvage, name: str = "") -> PartEntry:
        name = name or new_part_id(self.state.version + 1)
        episodes = [marked(episode, rest.note) for episode in rest.episodes]
        return write_part(self.root, name, self.schema, episodes, COMPACT_LEVEL)

    def mend_parts(self, progress: Progress | None) -> None:
        entries = {entry.part: entry for tag in self.tags.values() for entry in tag.parts}
        entries |= {entry.part: entry for entry in self.state.parts}
        total, done = sum(entry.steps for entry in entries.values()), 0
        for entry in entries.values():
            if not (self.root / "parts" / entry.part).exists():
                self._drop(entry)
            elif self._broken(entry) and not self._heal(entry):
                self._replace(entry)
            done += entry.steps
            if progress:
                progress(done, total)

    def _broken(self, entry: PartEntry) -> bool:
        found = part_problems(self.root, self.schema, entry)
        return any(problem.severity == "error" for problem in found)

    def _elsewhere(self, entry: PartEntry) -> set[str]:
        return {i for other in self.state.parts if other.part != entry.part for i in other.ids}

    def _drop(self, entry: PartEntry) -> None:
        lost = [name for name in entry.ids if name not in self._elsewhere(entry)]
        folder = self.root / "parts" / entry.part
        self.act(folder, "drop it: the folder is missing", lost=lost)
        self._exchange(entry, None)

    def _exchange(self, entry: PartEntry, new: PartEntry | None) -> None:
        """Let the log and the tags name a new part, or none, in the place of a damaged one."""
        if entry.part in self.state.live:
            self.commit([new] if new else [], [entry.part])
        self.retag(entry.part, new)

    def _heal(self, entry: PartEntry) -> bool:
        """Undo a flipped bit in the part's zarr.json; returns whether the part is whole then."""
        path = self.root / "parts" / entry.part / "zarr.json"
        try:
            data = atomic.read_bytes(path)
        except (OSError, DatasetError):
            return False

        def is_right(trial: bytes) -> bool:
            return hashlib.sha256(trial).hexdigest() == entry.digest

        right = None if is_right(data) else unflipped(data, is_right)
        if right is None:
            return False
        self.turn_back(path, right)
        return self.dry_run or not self._broken(entry)

    def _replace(self, entry: PartEntry) -> None:
        """Write what is whole in a damaged part as a new part in its place."""
        rest = salvage(self.root, self.schema, entry)
        folder = self.root / "parts" / entry.part
        kept = f"keep {len(rest.episodes)} of {_counted(entry.ids)} in a new part"
        what = f"{kept if rest.episodes else 'keep nothing'}, set this one aside"
        note = f"; {rest.note}" if rest.note else ""
        lost = [name for name in rest.lost if name not in self._elsewhere(entry)]
        self.act(folder, what + note, lost=lost)
        self.replaced.add(entry.part)
        if self.dry_run:
            self._exchange(entry, None)
            return
        new = None
        if rest.episodes:
            name = new_part_id(self.state.version + 1)
            if entry.part not in self.state.live:
                self.commit(remove=[name])  # only tags hold it: it is removed before it is there
            new = self._write(rest, name).numbered(entry.first)
        self._exchange(entry, new)
        self.set_aside(folder, folder.name)


def _counted(episodes: Sequence[object]) -> str:
    return "1 episode" if len(episodes) == 1 else f"{len(episodes)} episodes"


def _entry_on_disk(folder: Path) -> PartEntry | None:
    """The log entry of a part that is in no log, from its own metadata."""
    path = folder / "zarr.json"
    try:
        data = atomic.read_bytes(path)
        attributes = PartAttributes.parse(data, path)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    except (OSError, DatasetError):
        return None
    digest = hashlib.sha256(data).hexdigest()
    return attributes.entry(size, digest) if attributes.part == folder.name else None


def _same_episodes(parts: Sequence[PartEntry], entry: PartEntry) -> list[PartEntry]:
    """The neighboring parts that together hold exactly the episodes of `entry`, if any do."""
    for start, head in enumerate(parts):
        if head.ids[0] != entry.ids[0]:
            continue
        run: list[PartEntry] = []
        ids: tuple[str, ...] = ()
        while len(ids) < len(entry.ids) and start + len(run) < len(parts):
            run.append(parts[start + len(run)])
            ids += run[-1].ids
        if ids == entry.ids:
            return run
    return []
