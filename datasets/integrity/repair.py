"""`repair`: make a damaged dataset whole again without losing an episode that is intact.

Nothing that could still be of use is deleted: damaged files go to `quarantine/`. Every step leaves
a dataset that the next attempt can go on with, so a repair may be killed like any other writer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wmtk.datasets.integrity.checks import (
    QUARANTINE,
    Progress,
    dead_staging,
    marker_problems,
    markers,
    staging_files,
)
from wmtk.datasets.integrity.header_repair import load_header, mended_header, whole_header
from wmtk.datasets.integrity.part_repair import Action, PartRepair
from wmtk.datasets.integrity.recovery import scan_log, scan_tags
from wmtk.datasets.integrity.validate import looks_like_dataset
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, hosts, retention
from wmtk.datasets.storage.header import read_header
from wmtk.errors import CorruptDatasetError, DatasetError


@dataclass(frozen=True)
class RepairReport:
    """What was done to a dataset, or would be."""

    path: Path
    dry_run: bool
    actions: tuple[Action, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """The ids of the episodes that damage destroyed."""
        return tuple(name for action in self.actions for name in action.lost)


def repair(
    path: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    header_from: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> RepairReport:
    """Mend what `validate` finds; `dry_run` only tells what would be done.

    Needs the dataset for itself: raises while another process has it open for writing.
    `header_from` is a dataset of the same task, for when the header itself is lost.
    """
    root = Path(path)
    if not looks_like_dataset(root) and load_header(root) is None:
        read_header(root)  # which says what is wrong with the path
    with _alone(root, dry_run), contextlib.ExitStack() as stack:
        if not dry_run:
            stack.enter_context(atomic.translate_os_errors(root))
        job = _Repair(root, dry_run)
        job.mend_header(Path(header_from) if header_from else None)
        job.mend_folders()
        job.mend_tags()
        job.mend_log()
        job.empty_trash_of_needed()
        job.adopt_orphans()
        job.mend_parts(progress)
        job.clear_up()
        return RepairReport(root, dry_run, tuple(job.actions))


@contextlib.contextmanager
def _alone(root: Path, dry_run: bool) -> Iterator[None]:
    """Hold the lock that writers share; a dry run on a read-only copy may have none."""
    tmp = root / "tmp"
    for folder in (tmp, root / "trash", root / "tags", root / QUARANTINE):
        if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
            raise CorruptDatasetError(
                f"{folder} is not a folder.", "Move it away; then repair again.", folder
            )
    if not dry_run:
        with atomic.translate_os_errors(root):
            tmp.mkdir(exist_ok=True)
    if not tmp.exists():
        yield
        return
    if not dry_run:
        with contextlib.ExitStack() as stack:
            hosts.announce(root, stack, alone=True)
            yield
        return
    with atomic.FolderLock(tmp, exclusive=True) as granted:
        if not granted:
            raise DatasetError(
                f"{root} is open for writing in another process.",
                "Stop what collects into it, then repair it.",
                root,
            )
        yield


class _Repair(PartRepair):
    """The steps of a repair, in order; each acts on what those before it have found."""

    tag_was_lost = False

    # --- header, folders, tags ---

    def mend_header(self, header_from: Path | None) -> None:
        path = self.root / "zarr.json"
        if (header := load_header(self.root)) is not None:
            if looks_like_dataset(self.root):
                read_header(self.root)  # refuses formats of the future
            self.schema = Schema.from_json(header["schema"])
            return
        data, how = mended_header(self.root, header_from)
        header = whole_header(data)
        assert header is not None, path
        self.schema = Schema.from_json(header["schema"])

        def run() -> None:
            if path.exists():
                self.set_aside(path, "header.json")
            atomic.replace_file(path, data)

        self.act(path, how, run)

    def mend_folders(self) -> None:
        for name in ("parts", "log"):
            folder = self.root / name
            links = [folder, *(folder.iterdir() if folder.is_dir() else ())]
            for link in links:
                if link.is_symlink():
                    raise CorruptDatasetError(
                        f"{link} is a symbolic link, which a dataset never contains.",
                        "Put what it points to in its place, or delete it; then repair again.",
                        link,
                    )
            if not folder.is_dir():
                if folder.exists():
                    self.act(folder, "set aside: it is no folder", self.set_aside, folder, name)
                self.act(folder, "make the missing folder", self._make_folder, folder)

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir()
        marker = folder / "zarr.json"
        atomic.write_file(marker, atomic.json_bytes(markers(self.root, None, set())[marker]))

    def mend_tags(self) -> None:
        self.tags, files = scan_tags(self.root, heal=True)
        for path, data in files.healed.items():
            self.turn_back(path, data)
        for path, what in files.damaged.items():
            self.tag_was_lost = True
            done = f"set aside the tag: it {what}"
            self.act(path, done, self.set_aside, path, f"tag-{path.name}")

    # --- the log ---

    def mend_log(self) -> None:
        scan = scan_log(self.root, heal=True)
        self.known = scan.ids | {i for tag in self.tags.values() for e in tag.parts for i in e.ids}
        for path, data in scan.files.healed.items():
            self.turn_back(path, data)
        exact = scan.exact()
        if exact is None or any(tag.version > scan.head for tag in self.tags.values()):
            self.state, self.holes = scan.likely(self.tags)
            what = f"write the log again, as version {self.state.version}, from what is readable"
            self.act(self.root / "log", what, self._rebuild_log)
            return
        self.state = exact
        for path, fault in scan.files.damaged.items():
            what = f"set aside: it {fault}; the rest of the log tells the same"
            self.act(path, what, self.set_aside, path, f"log-{path.name}")

    def _rebuild_log(self) -> None:
        """The new snapshot is written before the old files go: a crash leaves a readable log."""
        old = [path for path in self.log.folder.iterdir() if path.name != "zarr.json"]
        name = f"log-{self.state.version - 1:08d}"
        copy = self.root / "tmp" / name
        atomic.remove_tree(copy)
        copy.mkdir()
        for path in old:
            if path.is_file():
                (copy / path.name).hardlink_to(path)
            else:  # a folder or a pipe, which nothing reads
                path.rename(copy / path.name)
        self.set_aside(copy, name)
        self.state = self.log.snapshot(self.state)
        for path in old:
            path.unlink(missing_ok=True)
        atomic.sync(self.log.folder)

    # --- the rest ---

    def clear_up(self) -> None:
        for path in dead_staging(self.root):
            self.act(path, "delete what a dead writer left", atomic.remove_tree, path)
        for path in staging_files(self.root):
            self.act(path, "delete what a dead writer left", path.unlink)
        self._clear_removed()
        present = {name for name in self._named() if (self.root / "parts" / name).is_dir()}
        wanted = markers(self.root, self.schema, present)
        for problem in marker_problems(self.root, self.schema, present):
            data = atomic.json_bytes(wanted[problem.path])
            if problem.path.is_dir():
                self.act(
                    problem.path, "set aside: it is a folder", self.set_aside, problem.path, "node"
                )
            what = "write it again, for plain zarr to read"
            self.act(problem.path, what, atomic.replace_file, problem.path, data)

    def _in_trash(self) -> list[Path]:
        trash = self.root / "trash"
        return [path for path in sorted(trash.iterdir()) if path.is_dir()] if trash.is_dir() else []

    def _named(self) -> set[str]:
        """Every part that is live or tagged."""
        pinned = {entry.part for tag in self.tags.values() for entry in tag.parts}
        return pinned | self.state.live

    def empty_trash_of_needed(self) -> None:
        """Put back what a deletion that died had taken, but a tag or the log still names."""
        for path in self._in_trash():
            target = self.root / "parts" / path.name
            if path.name in self._named() and not target.exists():
                self.act(path, "put it back: it is still needed", path.rename, target)

    def _clear_removed(self) -> None:
        names = self.state.removed - self._named() - self.replaced
        gone = [self.root / "parts" / name for name in sorted(names)]
        for path in [*[path for path in gone if path.exists()], *self._in_trash()]:
            if self.tag_was_lost:
                what = "set aside: it was removed, but a tag that is lost may have kept it"
                self.act(path, what, self.set_aside, path, path.name)
            else:
                self.act(path, "delete: it was removed from the dataset")
        if not self.dry_run:
            retention.collect_garbage(self.root, self.state)
