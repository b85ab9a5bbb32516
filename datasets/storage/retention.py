"""Eviction by capacity, tags that keep a version on disk, and the deletion of other parts."""

from __future__ import annotations

import bisect
import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from wmtk.datasets.storage import atomic, hosts
from wmtk.datasets.storage.dataset_state import DatasetState, Totals, Version, require_consistent
from wmtk.datasets.storage.part import PART_ID, PartEntry
from wmtk.documents import Document, Items, Text
from wmtk.errors import CorruptDatasetError, EvictedError, SpaceError, TagError
from wmtk.spaces import check_name


class Tag(Document):
    """A named version; its parts stay on disk when they are evicted.

    Example:
        >>> from wmtk.datasets import Dataset
        >>> with Dataset.open("catch.zarr", "a") as dataset:
        ...     tag = dataset.tag("first", "random play")
        >>> tag.name, tag.episodes
        ('first', 8)
        >>> len(Dataset.open("catch.zarr", tag="first"))
        8
    """

    name: str = Field(alias="tag")
    version: Version
    created: Text
    note: Text
    parts: Items[PartEntry]
    totals: Totals | None = None  # older tags have none

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        require_consistent(self.parts, self.totals)
        return self

    @classmethod
    def of(cls, name: str, version: int, parts: Sequence[PartEntry], note: str, at: str) -> Tag:
        totals = Totals.of(parts)
        return cls(
            tag=name, version=version, created=at, note=note, parts=tuple(parts), totals=totals
        )

    def with_parts(self, parts: Sequence[PartEntry]) -> Tag:
        return Tag.of(self.name, self.version, parts, self.note, self.created)

    def to_bytes(self) -> bytes:
        return atomic.json_bytes(atomic.with_checksum(self.model_dump(by_alias=True)))

    @property
    def steps(self) -> int:
        return sum(entry.steps for entry in self.parts)

    @property
    def episodes(self) -> int:
        return sum(len(entry.lengths) for entry in self.parts)


def episodes_with_steps(entry: PartEntry, steps: int) -> int:
    """The number of first episodes of a part with `steps` steps in all; at most all episodes."""
    return min(bisect.bisect_left(list(accumulate(entry.lengths)), steps) + 1, len(entry.ids))


def parts_to_evict(
    state: DatasetState, capacity: int | None, part_steps: int = 1, incoming: int = 0
) -> tuple[str, ...]:
    """The oldest parts to remove so that `incoming` more steps fit into `capacity`.

    The newest part always stays: an episode longer than the capacity is kept whole. Parts of more
    than 2 × `part_steps` steps are cut instead of removed if some of their episodes fit.
    """
    if capacity is None:
        return ()
    excess = state.steps + incoming - capacity
    evicted = []
    candidates = state.parts if incoming else state.parts[:-1]
    for entry in candidates:
        if excess <= 0 or (
            entry.steps > 2 * part_steps and episodes_with_steps(entry, excess) < len(entry.ids)
        ):
            break
        evicted.append(entry.part)
        excess -= entry.steps
    return tuple(evicted)


# --- tags -------------------------------------------------------------------------------------


def tag_path(root: Path, name: str) -> Path:
    try:
        check_name(name, "The tag")
    except SpaceError as error:
        raise TagError(error.message, error.hint) from error
    return root / "tags" / f"{name}.json"


def write_tag(root: Path, name: str, state: DatasetState, note: str = "") -> Tag:
    """Write a tag of a version whose parts are all on disk."""
    path = tag_path(root, name)
    with atomic.translate_os_errors(root), _tags_locked(root):
        present = set(os.listdir(root / "parts"))
        if missing := [entry.part for entry in state.parts if entry.part not in present]:
            raise EvictedError(
                f"{len(missing)} parts of version {state.version} were evicted before the tag "
                f"{name!r} could pin them.",
                "Call refresh() and tag the newest version.",
                root,
            )
        return _create_tag(root, path, name, state, note)


def _create_tag(root: Path, path: Path, name: str, state: DatasetState, note: str) -> Tag:
    tag = Tag.of(name, state.version, state.parts, note, atomic.timestamp())
    try:
        atomic.create_exclusively(path, tag.to_bytes())
    except FileExistsError as error:
        raise TagError(
            f"The tag {name!r} exists already in {root}.",
            "Choose another name, or delete it first: "
            f"wmtk data tag {shlex.quote(str(root))} {name} --delete",
            path,
        ) from error
    return tag


def read_tag(root: Path, name: str) -> Tag:
    path = tag_path(root, name)
    try:
        return parse_tag(path, name)
    except FileNotFoundError as error:
        known = ", ".join(tag.name for tag in read_tags(root)) or "none"
        raise TagError(f"{root} has no tag {name!r}.", f"Its tags: {known}.", path) from error


def parse_tag(path: Path, name: str) -> Tag:
    """Read and validate the file of a tag; `name` is that of the file."""
    data = atomic.read_bytes(path, limit=atomic.MAX_STATE_BYTES)
    content = atomic.verify_checksum(atomic.parse_json(data, path), path)
    tag = Tag.read(content, path, "Delete the file, or copy it again.")
    if tag.name != name:
        message = f"{path} belongs to the tag {tag.name!r}."
        raise CorruptDatasetError(message, "Delete the file.", path)
    return tag


def read_tags(root: Path) -> Iterator[Tag]:
    folder = root / "tags"
    if folder.is_dir():
        for name in sorted(os.listdir(folder)):
            if name.endswith(".json") and not name.startswith(".") and name != "zarr.json":
                try:
                    tag = parse_tag(folder / name, name.removesuffix(".json"))
                except FileNotFoundError:
                    continue  # another process deleted it
                yield tag


@contextlib.contextmanager
def _tags_locked(root: Path) -> Iterator[None]:
    """Exclude other processes that write tags or delete untagged parts."""
    (root / "tags").mkdir(exist_ok=True)
    with atomic.FolderLock(root / "tags", exclusive=True, wait=True):
        yield


# --- deletion ---------------------------------------------------------------------------------


def collect_garbage(root: Path, state: DatasetState) -> int:
    """Delete the files of removed parts that no tag names; returns the bytes freed.

    A part is first moved to `trash` in one step, while no tag can be written. Writing a tag of it
    later raises EvictedError.
    """
    removed = [name for name in state.removed if (root / "parts" / name).exists()]
    trash = root / "trash"
    if not removed and not _folders(trash):
        return 0
    with atomic.translate_os_errors(root):
        trash.mkdir(exist_ok=True)
        with _tags_locked(root):
            pinned = _pinned(root)
            for name in removed:
                if name not in pinned:
                    _move(root / "parts" / name, trash / name)
        freed = 0
        for folder in _folders(trash):
            if folder.name not in pinned:
                freed += _size(folder)
                atomic.remove_tree(folder)
    return freed


def clean_staging(root: Path) -> int:
    """Delete incomplete parts of killed writers; returns their number."""
    removed = 0
    for staging in _folders(root / "tmp"):
        if not hosts.may_clean(staging):
            continue
        try:
            with atomic.FolderLock(staging, exclusive=True) as granted:
                if granted:
                    atomic.remove_tree(staging)
                    removed += 1
        except FileNotFoundError:
            continue  # its writer has finished
    return removed


def _pinned(root: Path) -> set[str]:
    return {entry.part for tag in read_tags(root) for entry in tag.parts}


def _move(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # another process has moved it
        source.rename(target)


def _folders(path: Path) -> list[Path]:
    """The folders of parts in `tmp` or `trash`."""
    if not path.is_dir():
        return []
    children = [p for p in path.iterdir() if PART_ID.fullmatch(hosts.part_of(p.name))]
    return [child for child in children if child.is_dir() and not child.is_symlink()]


def _size(folder: Path) -> int:
    """The bytes of the files below a folder that other processes may be deleting too."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += Path(parent, name).lstat().st_size
    return size
