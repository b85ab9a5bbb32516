"""What can be read of a dataset's log and tags, and the state that follows from it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from wmtk.datasets import durable
from wmtk.datasets.log import RECORD_NAME, SNAPSHOT_NAME, Change, State
from wmtk.datasets.part import PART_ID, PartEntry
from wmtk.datasets.retention import Tag
from wmtk.datasets.salvage import MAX_HEALED_JSON, unflipped
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
            data = durable.read_bytes(path)
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
    return durable.unsealed(durable.parse(data, path), path)


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
    records: dict[int, Change]
    snapshots: dict[int, State]
    files: SealedFiles

    @cached_property
    def base(self) -> State:
        """The newest snapshot that is readable."""
        return self.snapshots[max(self.snapshots)] if self.snapshots else State(0)

    def gaps(self) -> list[range]:
        """The versions after the newest snapshot whose records are missing or unreadable."""
        known = [v for v in sorted(self.records) if self.base.version < v <= self.head]
        edges = [self.base.version, *known, self.head + 1]
        return [range(low + 1, high) for low, high in pairwise(edges) if high > low + 1]

    def exact(self) -> State | None:
        """The newest state, if what is readable tells it without doubt."""
        if self.gaps():
            return None
        state = self.base
        for version in range(state.version + 1, self.head + 1):
            change = self.records[version]
            state = state.apply(version, change.add, change.remove)
        return state

    def likely(self, tags: dict[str, Tag]) -> tuple[State, list[range]]:
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
    records: dict[int, Change] = {}
    snapshots: dict[int, State] = {}
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
            if document["version"] != version:
                files.damaged[path] = f"is a record of version {document['version']}"
            elif SNAPSHOT_NAME.fullmatch(name):
                snapshots[version] = _state(document, path)
            else:
                add = tuple(PartEntry.from_json(item, path) for item in document["add"])
                records[version] = Change(str(document["why"]), add, _names(document, "remove"))
        except (KeyError, TypeError, ValueError, CorruptDatasetError) as error:
            files.damaged[path] = f"is not a record of a dataset ({error!r})"
    return LogScan(folder, head, records, snapshots, files)


def _state(document: dict[str, Any], path: Path) -> State:
    parts = tuple(PartEntry.from_json(item, path) for item in document["parts"])
    removed = frozenset(_names(document, "removed"))
    return State(document["version"], parts, removed, int(document["next_episode"]))


def _names(document: dict[str, Any], key: str) -> tuple[str, ...]:
    names = tuple(document[key])
    if not all(isinstance(name, str) and PART_ID.fullmatch(name) for name in names):
        raise ValueError(f"impossible part names in {key}")
    return names


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
            tag = tag_from_json(document, path)
        except (KeyError, TypeError, ValueError, CorruptDatasetError) as error:
            files.damaged[path] = f"does not describe a tag ({error!r})"
            continue
        if tag.name != path.stem:
            files.damaged[path] = f"belongs to the tag {tag.name!r}"
        else:
            tags[tag.name] = tag
    return tags, files


def tag_from_json(document: dict[str, Any], path: Path) -> Tag:
    parts = tuple(PartEntry.from_json(item, path) for item in document["parts"])
    version = int(document["version"])
    return Tag(str(document["tag"]), version, document["created"], document["note"], parts)


def tag_to_json(tag: Tag) -> dict[str, Any]:
    return {
        "tag": tag.name,
        "version": tag.version,
        "created": tag.created,
        "note": tag.note,
        "parts": [entry.to_json() for entry in tag.parts],
    }
