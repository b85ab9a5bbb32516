"""What stays on disk: FIFO capacity, tags that pin a version, and the deletion of the rest."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmtk.datasets import durable
from wmtk.datasets.log import State
from wmtk.datasets.part import PART_ID, PartEntry
from wmtk.errors import CorruptDatasetError, EvictedError, SpaceError, TagError
from wmtk.spaces import check_name


@dataclass(frozen=True)
class Tag:
    """A named version whose parts no eviction deletes."""

    name: str
    version: int
    created: str
    note: str
    parts: tuple[PartEntry, ...]

    @property
    def steps(self) -> int:
        return sum(entry.steps for entry in self.parts)

    @property
    def episodes(self) -> int:
        return sum(len(entry.lengths) for entry in self.parts)


def over_capacity(state: State, capacity: int | None, incoming: int = 0) -> tuple[str, ...]:
    """The oldest parts that must go so that `incoming` more steps fit into `capacity`.

    The newest part always stays: an episode longer than the capacity is kept whole.
    """
    if capacity is None:
        return ()
    excess = state.steps + incoming - capacity
    gone = []
    candidates = state.parts if incoming else state.parts[:-1]
    for entry in candidates:
        if excess <= 0:
            break
        gone.append(entry.part)
        excess -= entry.steps
    return tuple(gone)


# --- tags -------------------------------------------------------------------------------------


def tag_path(root: Path, name: str) -> Path:
    try:
        check_name(name, "The tag")
    except SpaceError as error:
        raise TagError(error.message, error.hint) from error
    return root / "tags" / f"{name}.json"


def write_tag(root: Path, name: str, state: State, note: str = "") -> Tag:
    """Pin a version whose parts are all still there."""
    path = tag_path(root, name)
    with durable.writing(root), _tags_locked(root):
        present = set(os.listdir(root / "parts"))
        if missing := [entry.part for entry in state.parts if entry.part not in present]:
            raise EvictedError(
                f"{len(missing)} parts of version {state.version} were evicted before the tag "
                f"{name!r} could pin them.",
                "Call refresh() and tag the newest version.",
                root,
            )
        return _create_tag(root, path, name, state, note)


def _create_tag(root: Path, path: Path, name: str, state: State, note: str) -> Tag:
    tag = Tag(name, state.version, durable.now(), note, state.parts)
    document: dict[str, Any] = {
        "tag": name,
        "version": tag.version,
        "created": tag.created,
        "note": note,
        "parts": [entry.to_json() for entry in tag.parts],
    }
    try:
        durable.create_exclusively(path, durable.to_bytes(durable.sealed(document)))
    except FileExistsError as error:
        raise TagError(
            f"The tag {name!r} exists already in {root}.",
            f"Choose another name, or delete it first: wmtk data tag {root} {name} --delete",
            path,
        ) from error
    return tag


def read_tag(root: Path, name: str) -> Tag:
    path = tag_path(root, name)
    try:
        return _load_tag(path, name)
    except FileNotFoundError as error:
        known = ", ".join(tag.name for tag in read_tags(root)) or "none"
        raise TagError(f"{root} has no tag {name!r}.", f"Its tags: {known}.", path) from error


def _load_tag(path: Path, name: str) -> Tag:
    data = durable.read_bytes(path)
    document = durable.unsealed(durable.parse(data, path), path)
    if document.get("tag") != name:
        raise CorruptDatasetError(f"{path} belongs to another tag.", "Delete the file.", path)
    kinds = {"version": int, "created": str, "note": str, "parts": list}
    if bad := [key for key, kind in kinds.items() if type(document.get(key)) is not kind]:
        raise CorruptDatasetError(f"{path} has no usable {bad[0]!r}.", "Delete the file.", path)
    parts = tuple(PartEntry.from_json(item, path) for item in document["parts"])
    return Tag(name, document["version"], document["created"], document["note"], parts)


def read_tags(root: Path) -> Iterator[Tag]:
    folder = root / "tags"
    if folder.is_dir():
        for name in sorted(os.listdir(folder)):
            if name.endswith(".json") and not name.startswith(".") and name != "zarr.json":
                try:
                    tag = _load_tag(folder / name, name.removesuffix(".json"))
                except FileNotFoundError:
                    continue  # deleted meanwhile
                yield tag


@contextlib.contextmanager
def _tags_locked(root: Path) -> Iterator[None]:
    """One process at a time pins parts, or decides which ones nobody pins."""
    (root / "tags").mkdir(exist_ok=True)
    with durable.lock_held(root / "tags", exclusive=True, wait=True):
        yield


# --- deletion ---------------------------------------------------------------------------------


def collect_garbage(root: Path, state: State) -> int:
    """Delete the files of removed parts that no tag pins; returns the bytes freed.

    A part is first renamed into `trash`, so that it is whole or gone, while no tag can be
    written. It never comes back from there: whoever wants to pin it then finds it missing.
    """
    doomed = [name for name in state.removed if (root / "parts" / name).exists()]
    trash = root / "trash"
    if not doomed and not _folders(trash):
        return 0
    with durable.writing(root):
        trash.mkdir(exist_ok=True)
        with _tags_locked(root):
            pinned = _pinned(root)
            for name in doomed:
                if name not in pinned:
                    _move(root / "parts" / name, trash / name)
        freed = 0
        for folder in _folders(trash):
            if folder.name not in pinned:
                freed += _size(folder)
                durable.remove_tree(folder)
    return freed


def clean_staging(root: Path) -> int:
    """Delete what writers that died left half-written; returns how many folders."""
    removed = 0
    for staging in _folders(root / "tmp"):
        try:
            with durable.lock_held(staging, exclusive=True) as dead:
                if dead:
                    durable.remove_tree(staging)
                    removed += 1
        except FileNotFoundError:
            continue  # its writer finished meanwhile
    return removed


def _pinned(root: Path) -> set[str]:
    return {entry.part for tag in read_tags(root) for entry in tag.parts}


def _move(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process was quicker
        source.rename(target)


def _folders(path: Path) -> list[Path]:
    """The parts in `tmp` or `trash`, and nothing that got there otherwise."""
    if not path.is_dir():
        return []
    children = [child for child in path.iterdir() if PART_ID.fullmatch(child.name)]
    return [child for child in children if child.is_dir() and not child.is_symlink()]


def _size(folder: Path) -> int:
    """The bytes of the files below a folder that other processes may be deleting too."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += Path(parent, name).lstat().st_size
    return size
