"""`repair`: isolate the damage in a dataset and keep every episode that is whole.

Damaged files are moved to `quarantine/`, not deleted. A repair may be killed at any time: after
each step, another repair can continue.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.integrity.validate import (
    Progress,
    dead_staging,
    is_zarr_node,
    looks_like_dataset,
    marker_problems,
    markers,
    named_parts,
    part_folders,
    part_problems,
    staging_files,
    unnamed_parts,
)
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, hosts, retention
from wmtk.datasets.storage.commit_log import CommitLog
from wmtk.datasets.storage.dataset_state import Commit, DatasetState
from wmtk.datasets.storage.header import (
    QUARANTINE,
    header_bytes,
    load_header,
    make_folder,
    read_header,
)
from wmtk.datasets.storage.log_scan import scan_log, scan_tags
from wmtk.datasets.storage.part import PartAttributes, PartEntry, new_part_id, write_part
from wmtk.datasets.storage.retention import Tag
from wmtk.datasets.storage.shard import (
    COMPACT_LEVEL,
    ArrayMetadata,
    chunk_rows,
    intact_chunks,
)
from wmtk.errors import (
    CorruptDatasetError,
    DatasetError,
    FormatVersionError,
    NotADatasetError,
    SchemaMismatchError,
)

_FLAGS = ("terminated", "truncated")  # stored in the commit log as well


@dataclass(frozen=True)
class RepairAction:
    """One change that repair makes (or would make), and the episodes lost to the damage."""

    path: Path
    what: str
    lost: tuple[str, ...] = ()
    is_unread: bool = False  # whether a part with unknown episodes is set aside


@dataclass(frozen=True)
class RepairReport:
    """The changes that `repair` made to a dataset, or would make."""

    path: Path
    dry_run: bool
    actions: tuple[RepairAction, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """The ids of the episodes that could not be kept."""
        return tuple(name for action in self.actions for name in action.lost)


def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    header_from: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Repair what `validate` reports, keeping every episode that is whole.

    Args:
        path: Folder of the dataset, which no process may have open for writing.
        dry_run: Report what would be done and change nothing.
        header_from: A dataset of the same task that replaces a damaged header.
        progress: Called with (steps checked, steps in all) after each part.

    Raises:
        CorruptDatasetError: The header is damaged and `header_from` is not given.
        DatasetError: Another process has the dataset open for writing.

    Example:
        >>> from wmtk.datasets import repair
        >>> report = repair("catch.zarr", dry_run=True)
        >>> report.actions, report.lost
        ((), ())
    """
    root = Path(path)
    with _locked(root, dry_run), contextlib.ExitStack() as stack:
        if not dry_run:
            stack.enter_context(atomic.translate_os_errors(root))
        job = _Repair(root, dry_run)
        job.repair_header(Path(header_from) if header_from else None)
        job.repair_folders()
        job.repair_tags()
        job.repair_log()
        job.restore_from_trash()
        job.adopt_unnamed_parts()
        job.repair_parts(progress)
        job.clean_up()
        return RepairReport(root, dry_run, tuple(job.actions))


@contextlib.contextmanager
def _locked(root: Path, dry_run: bool) -> Iterator[None]:
    """Hold the writers' lock exclusively, except in a dry run on a copy without `tmp/`."""
    if not looks_like_dataset(root):
        load_header(root)  # which raises unless the folder holds a dataset
    for folder in (root / name for name in ("tmp", "trash", "tags", QUARANTINE)):
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            raise CorruptDatasetError(
                f"{folder} is not a folder.", "Move it away; then repair again.", folder
            )
    tmp = root / "tmp"
    with contextlib.ExitStack() as stack:
        if not dry_run:
            with atomic.translate_os_errors(root):
                tmp.mkdir(exist_ok=True)
            hosts.lock_for_writing(root, stack, alone=True)
        elif tmp.exists() and not stack.enter_context(atomic.FolderLock(tmp, exclusive=True)):
            raise hosts.open_for_writing_error(root)
        yield


class _Repair:
    """The steps of a repair, in order; each depends on the results of the earlier ones."""

    schema: Schema
    state: DatasetState
    tags: dict[str, Tag]

    def __init__(self, root: Path, dry_run: bool) -> None:
        self.root = root
        self.dry_run = dry_run
        self.log = CommitLog(root)
        self.actions: list[RepairAction] = []
        self.missing: list[range] = []  # episode numbers that lost records assigned
        self.known: frozenset[str] = frozenset()  # ids of episodes that were ever committed
        self.replaced: set[str] = set()  # parts that are, or in a dry run would be, quarantined
        self.tag_was_lost = False

    def act(
        self,
        path: Path,
        what: str,
        run: Callable[..., object] | None = None,
        *args: object,
        lost: Sequence[str] = (),
        is_unread: bool = False,
    ) -> None:
        """Record an action, and run it unless this is a dry run."""
        self.actions.append(RepairAction(path, what, tuple(lost), is_unread))
        if run is not None and not self.dry_run:
            run(*args)

    def commit(self, add: Sequence[PartEntry] = (), remove: Sequence[str] = ()) -> None:
        """Commit a change to the log; a dry run applies it in memory, for the later steps."""
        if self.dry_run:
            number = self.state.next_episode
            add = [entry.numbered(number) if entry.first < 0 else entry for entry in add]
            self.state = self.state.apply(self.state.version + 1, add, remove)
            return
        commit = Commit("repair", tuple(add), tuple(remove))
        self.state = self.log.commit(self.state, lambda _: commit)

    def set_aside(self, path: Path, name: str) -> None:
        """Move a file or folder into the quarantine."""
        make_folder(self.root, QUARANTINE)
        target, number = self.root / QUARANTINE / name, 1
        while os.path.lexists(target):
            number += 1
            target = target.with_name(f"{name}-{number}")
        path.rename(target)
        atomic.sync(target.parent)
        atomic.sync(path.parent)

    # --- header, folders, tags, log ---

    def repair_header(self, header_from: Path | None) -> None:
        path = self.root / "zarr.json"
        try:
            header = load_header(self.root)
            what = "write it again, as a zarr v3 group, around the header, which is whole"
        except FormatVersionError:
            raise
        except (CorruptDatasetError, NotADatasetError, OSError):
            header = _header_of(self.root, header_from)
            what = f"use the header of {header_from}"
        else:
            if is_zarr_node(path, "group"):
                self.schema = Schema.from_json(header["schema"])
                return
        self.schema = Schema.from_json(header["schema"])
        if os.path.lexists(path):
            self.act(path, f"set aside; {what}", self.set_aside, path, "header.json")
        else:
            self.act(path, what)
        if not self.dry_run:
            atomic.replace_file(path, header_bytes(header))

    def repair_folders(self) -> None:
        for name in ("parts", "log"):
            folder = self.root / name
            for link in [folder, *(folder.iterdir() if folder.is_dir() else ())]:
                if link.is_symlink():
                    raise CorruptDatasetError(
                        f"{link} is a symbolic link, which a dataset never contains.",
                        "Replace it by what it points to, or delete it; then repair again.",
                        link,
                    )
            if not folder.is_dir():
                if folder.exists():
                    self.act(folder, "set aside: it is not a folder", self.set_aside, folder, name)
                self.act(folder, "create the missing folder", make_folder, self.root, name)

    def repair_tags(self) -> None:
        self.tags, damaged = scan_tags(self.root)
        for path, what in damaged.items():
            self.tag_was_lost = True
            done = f"set aside the tag: it {what}"
            self.act(path, done, self.set_aside, path, f"tag-{path.name}")

    def repair_log(self) -> None:
        scan = scan_log(self.root)
        tagged = {name for tag in self.tags.values() for e in tag.parts for name in e.ids}
        self.known = scan.ids | tagged
        exact = scan.exact()
        if exact is None or any(tag.version > scan.head for tag in self.tags.values()):
            self.state, self.missing = scan.estimate(self.tags)
            causes = [f"{path.name} {what}" for path, what in scan.damaged.items()]
            what = f"write the log again, as version {self.state.version}, from what is readable"
            self.act(self.log.folder, "; ".join([what, *causes]), self._rebuild_log)
            return
        self.state = exact
        for path, fault in scan.damaged.items():
            what = f"set aside: it {fault}; the rest of the log has the same content"
            self.act(path, what, self.set_aside, path, f"log-{path.name}")

    def _rebuild_log(self) -> None:
        """Write a snapshot before the old files are set aside: a crash leaves a readable log."""
        old = [path for path in self.log.folder.iterdir() if path.name != "zarr.json"]
        self.state = self.log.write_snapshot(self.state)
        for path in old:
            self.set_aside(path, f"log-{path.name}")

    # --- parts that no version names ---

    def restore_from_trash(self) -> None:
        """Restore parts in the trash that the log or a tag still names."""
        named = named_parts(self.state, self.tags)
        for name in part_folders(self.root / "trash"):
            path, target = self.root / "trash" / name, self.root / "parts" / name
            if name in named and not target.exists():
                self.act(path, "move it back: it is still named", path.rename, target)

    def adopt_unnamed_parts(self) -> None:
        """Add the parts of appends that were killed before the commit, or whose record is lost."""
        for name in unnamed_parts(self.root, self.state, self.tags):
            folder = self.root / "parts" / name
            entry = _entry_on_disk(folder)
            if entry is None:
                what = "set aside, with unknown episodes: its zarr.json is damaged"
                self.act(folder, what, self.set_aside, folder, name, is_unread=True)
            elif self._is_damaged(entry):
                self._adopt_rest(folder, entry)
            else:
                self._adopt(folder, entry)

    def _adopt(self, folder: Path, entry: PartEntry) -> None:
        sources = _same_episodes(self.state.parts, entry)
        live = {name for other in self.state.parts for name in other.ids}
        if len(sources) > 1 or any(not (folder.parent / e.part).exists() for e in sources):
            what = f"commit it in the place of the {len(sources)} parts it was joined from"
            self.act(folder, what)
            self.commit([entry.numbered(sources[0].first)], [other.part for other in sources])
        elif (live | self.known).intersection(entry.ids):
            what = "set aside: its episodes are, or were, in the dataset already"
            self.act(folder, what, self.set_aside, folder, folder.name)
        else:
            self.act(folder, f"add it to the dataset: {_count(entry.ids)}")
            self.known |= frozenset(entry.ids)
            self.commit([entry.numbered(self._missing_number(len(entry.ids)))])

    def _adopt_rest(self, folder: Path, entry: PartEntry) -> None:
        episodes, lost, note = _salvage(self.root, self.schema, entry)
        new = [episode for episode in episodes if episode.id not in self.known]
        what = f"set aside, but add what is whole: {_count(new)}"
        self.act(folder, what, lost=[name for name in lost if name not in self.known])
        if not self.dry_run:
            if new:
                self.commit([self._write(new, note, new_part_id(self.state.version + 1))])
            self.set_aside(folder, folder.name)

    def _missing_number(self, count: int) -> int:
        """The first of `count` episode numbers that a lost record assigned, or −1 for the end."""
        for index, numbers in enumerate(self.missing):
            if len(numbers) >= count:
                self.missing[index] = range(numbers.start + count, numbers.stop)
                return numbers.start
        return -1

    # --- parts that are damaged ---

    def repair_parts(self, progress: Progress | None) -> None:
        entries = named_parts(self.state, self.tags)
        total, checked = sum(entry.steps for entry in entries.values()), 0
        for entry in entries.values():
            if not (self.root / "parts" / entry.part).exists():
                lost = self._only_in(entry, entry.ids)
                path = self.root / "parts" / entry.part
                self.act(path, "remove it from the dataset: the folder is missing", lost=lost)
                self._exchange(entry, None)
            elif self._is_damaged(entry):
                self._replace(entry)
            checked += entry.steps
            if progress:
                progress(checked, total)

    def _is_damaged(self, entry: PartEntry) -> bool:
        problems = part_problems(self.root, self.schema, entry)
        return any(problem.severity == "error" for problem in problems)

    def _only_in(self, entry: PartEntry, ids: Sequence[str]) -> list[str]:
        """The episodes of a part that no other live part holds."""
        others = {i for other in self.state.parts if other.part != entry.part for i in other.ids}
        return [name for name in ids if name not in others]

    def _replace(self, entry: PartEntry) -> None:
        """Write the whole episodes of a damaged part as a new part in its place."""
        episodes, lost, note = _salvage(self.root, self.schema, entry)
        folder = self.root / "parts" / entry.part
        what = f"keep {len(episodes)} of {_count(entry.ids)} in a new part, set this one aside"
        if not episodes:
            what = "keep nothing, set this one aside"
        self.act(folder, what + (f"; {note}" if note else ""), lost=self._only_in(entry, lost))
        self.replaced.add(entry.part)
        if self.dry_run:
            self._exchange(entry, None)
            return
        new = None
        if episodes:
            name = new_part_id(self.state.version + 1)
            if entry.part not in self.state.live:
                self.commit(remove=[name])  # only tags name it: the log never adds it
            new = self._write(episodes, note, name).numbered(entry.first)
        self._exchange(entry, new)
        self.set_aside(folder, folder.name)

    def _exchange(self, entry: PartEntry, new: PartEntry | None) -> None:
        """Replace a damaged part in the log and in tags by a new one, or remove it."""
        if entry.part in self.state.live:
            self.commit([new] if new else [], [entry.part])
        for tag in list(self.tags.values()):
            if all(other.part != entry.part for other in tag.parts):
                continue
            parts = [new if other.part == entry.part else other for other in tag.parts]
            tag = tag.with_parts([part for part in parts if part is not None])
            self.tags[tag.name] = tag
            if not self.dry_run:
                atomic.replace_file(retention.tag_path(self.root, tag.name), tag.to_bytes())

    def _write(self, episodes: Sequence[Episode], note: str, name: str) -> PartEntry:
        if note:
            episodes = [_with_note(episode, note) for episode in episodes]
        return write_part(self.root, name, self.schema, episodes, COMPACT_LEVEL)

    # --- leftovers ---

    def clean_up(self) -> None:
        for path in [*dead_staging(self.root), *staging_files(self.root)]:
            self.act(path, "delete the files of a killed writer", atomic.remove_tree, path)
        named = named_parts(self.state, self.tags).keys()
        removed = sorted(self.state.removed - named - self.replaced)
        paths = [path for name in removed if (path := self.root / "parts" / name).exists()]
        for path in [*paths, *[self.root / "trash" / n for n in part_folders(self.root / "trash")]]:
            if self.tag_was_lost:
                what = "set aside: it was removed, but the damaged tag may have named it"
                self.act(path, what, self.set_aside, path, path.name)
            else:
                self.act(path, "delete: it was removed from the dataset")
        if not self.dry_run:
            retention.collect_garbage(self.root, self.state)
        present = {name for name in named if (self.root / "parts" / name).is_dir()}
        metadata = markers(self.root, self.schema, present)
        for problem in marker_problems(self.root, self.schema, present):
            path, data = problem.path, atomic.json_bytes(metadata[problem.path])
            if path.is_dir():
                self.act(path, "set aside: it is a folder", self.set_aside, path, "node")
            self.act(path, "write it again, for zarr-python", atomic.replace_file, path, data)


def _count(episodes: Sequence[object]) -> str:
    return "1 episode" if len(episodes) == 1 else f"{len(episodes)} episodes"


def _entry_on_disk(folder: Path) -> PartEntry | None:
    """The log entry of a part without one, from its own metadata; None if that is damaged."""
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
    for start in range(len(parts)):
        ids: tuple[str, ...] = ()
        for stop in range(start, len(parts)):
            ids += parts[stop].ids
            if ids == entry.ids:
                return list(parts[start : stop + 1])
            if ids != entry.ids[: len(ids)]:
                break
    return []


# --- the header -------------------------------------------------------------------------------


def _header_of(root: Path, other: Path | None) -> dict[str, Any]:
    """The header of a dataset of the same task, with a new id."""
    if other is None:
        path = root / "zarr.json"
        raise CorruptDatasetError(
            f"{path} is damaged. Only this file holds the spaces, their bounds and the task.",
            "Copy it from a backup. Or use the header of a dataset of the same task (it may "
            f"be empty): wmtk data repair {shlex.quote(str(root))} --header-from OTHER",
            path,
        )
    header = read_header(other)
    _require_same_arrays(root, Schema.from_json(header["schema"]), other)
    return {
        **header,
        "id": uuid.uuid4().hex,
        "capacity": None,  # the other dataset's capacity might evict episodes
        "attributes": {"repair": f"header of dataset {header['id']}"},
    }


def _require_same_arrays(root: Path, schema: Schema, other: Path) -> None:
    """Raise unless the arrays on disk have the shapes and dtypes of the schema."""
    declared = {path: (spec.shape, spec.dtype) for path, spec in schema.arrays()}
    for part in part_folders(root / "parts"):
        folder = root / "parts" / part
        for file in sorted(folder.rglob("zarr.json")):
            array = file.parent.relative_to(folder).as_posix()
            try:
                data = atomic.read_bytes(file, limit=atomic.MAX_MARKER_BYTES)
                metadata = ArrayMetadata.read(atomic.parse_json(data, file), file)
            except (OSError, DatasetError):
                continue  # a group, or damaged itself
            stored = (metadata.shape[1:], metadata.data_type)
            if declared.get(array) != stored:
                raise SchemaMismatchError(
                    f"{other} is not a dataset of the same task: {array} is {stored} in {root}, "
                    f"but {declared.get(array, 'absent')} there.",
                    "Use a dataset with the same observation keys, shapes and dtypes.",
                    other,
                )


# --- episodes of a damaged part ---------------------------------------------------------------


def _salvage(root: Path, schema: Schema, entry: PartEntry) -> tuple[list[Episode], list[str], str]:
    """The intact episodes of a part, the ids of lost ones, and a note on the provenance.

    Each chunk of a shard has its own checksum, so that damage costs only the episodes whose rows
    it touches. An episode is whole if its content has the id that the log recorded.
    """
    folder = root / "parts" / entry.part
    attributes, note = _salvage_attributes(folder, entry)
    arrays = {}
    for path, spec in schema.arrays():
        if path not in _FLAGS:
            record = attributes.arrays.get(path) if attributes else None
            usable = record is not None and record.rows == entry.rows
            size = record.chunk_rows if record and usable else chunk_rows(spec, entry.rows)
            chunks = intact_chunks(folder / path, spec, entry.rows, size, entry.bytes)
            arrays[path] = size, chunks
    episodes, lost = [], []
    start = 0
    for number, name in enumerate(entry.ids):
        stop = start + entry.lengths[number] + 1
        rows = {p: _rows(chunks, size, start, stop) for p, (size, chunks) in arrays.items()}
        start = stop
        whole = {path: array for path, array in rows.items() if array is not None}
        if len(whole) == len(rows):
            last = np.arange(entry.lengths[number] + 1) == entry.lengths[number]
            for bit, flag in enumerate(_FLAGS):
                whole[flag] = last & bool(entry.ends[number] >> bit & 1)
            origin = attributes.origin(number) if attributes else (None, Provenance())
            episode = Episode.from_arrays(whole, *origin)
            with contextlib.suppress(DatasetError):
                episode.check_form(schema)
                if episode.id == name:
                    episodes.append(episode)
                    continue
        lost.append(name)
    return episodes, lost, note if episodes else ""


def _salvage_attributes(folder: Path, entry: PartEntry) -> tuple[PartAttributes | None, str]:
    """The part's attributes if they are usable, and a note if they are not as recorded."""
    path = folder / "zarr.json"
    try:
        data = atomic.read_bytes(path)
        attributes = PartAttributes.parse(data, path)
    except (OSError, DatasetError):
        attributes = None
    if attributes is None or tuple(row.id for row in attributes.episodes) != entry.ids:
        return None, "seeds and provenance are lost with the part's zarr.json"
    if hashlib.sha256(data).hexdigest() == entry.digest:
        return attributes, ""
    return attributes, "seeds and provenance come from an altered zarr.json"


def _with_note(episode: Episode, note: str) -> Episode:
    """The episode with a remark in its provenance."""
    extra = {**episode.provenance.extra, "repair": note}
    return replace(episode, provenance=replace(episode.provenance, extra=extra))


def _rows(
    chunks: Sequence[NDArray[Any] | None], size: int, start: int, stop: int
) -> NDArray[Any] | None:
    """Rows [start, stop) of an array in chunks of `size` rows, or None if a chunk is lost."""
    first, last = start // size, -(-stop // size)
    pieces = [chunk for chunk in chunks[first:last] if chunk is not None]
    if len(pieces) < last - first:
        return None
    return np.concatenate(pieces)[start - first * size : stop - first * size]
