"""`validate`: find every damaged, missing or foreign file of a dataset."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, hosts
from wmtk.datasets.storage.commit_log import CommitLog
from wmtk.datasets.storage.dataset_state import DatasetState
from wmtk.datasets.storage.header import FOLDERS, GROUP, QUARANTINE, folder_metadata, read_header
from wmtk.datasets.storage.log_scan import LogScan, describe_fault, scan_log, scan_tags
from wmtk.datasets.storage.part import PART_ID, PartEntry
from wmtk.datasets.storage.part_reader import PartReader, file_problems, read_attributes
from wmtk.datasets.storage.retention import Tag
from wmtk.datasets.storage.shard import data_file, verify_files
from wmtk.errors import CorruptDatasetError, DatasetError, NotADatasetError

Progress = Callable[[int, int], None]  # (steps done, steps in all)
_FIX_HEADER = "Copy it again, or run `wmtk data repair` with --header-from and a similar dataset."
_FIX_LOG = "`wmtk data repair` rebuilds the log; or copy the file again."
_FIX_TAG = "`wmtk data repair` sets the tag aside; or copy the file again."
_FIX_PART = "`wmtk data repair` keeps the episodes that are whole; or copy the file again."
_FIX_ORPHAN = "`wmtk data repair` adds its episodes to the dataset, or sets it aside."
_FIX_MARKER = "`wmtk data repair` writes it again."
_FIX_BOUNDS = "The data are as recorded. Correct the space in the environment before collecting."
_FIX_STRAY = "It is never read. Delete it, or move it out of the dataset."
_HARMLESS = "Harmless: the next writer or `wmtk data repair` deletes it."


@dataclass(frozen=True)
class Problem:
    """One fault of a dataset: the file, what is wrong with it, and how to fix it."""

    severity: Literal["error", "warning"]
    path: Path
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


@dataclass(frozen=True)
class ValidationReport:
    """The result of `validate`: what was checked, and every problem."""

    path: Path
    version: int
    parts: int
    episodes: int
    steps: int
    bytes: int  # of the parts that were checked
    quick: bool
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(p for p in self.problems if p.severity == "warning")

    @property
    def ok(self) -> bool:
        return not self.errors


def validate(
    path: str | os.PathLike[str], *, quick: bool = False, progress: Progress | None = None
) -> ValidationReport:
    """Check every file of a dataset and report all damage, without raising for it.

    Nothing is written: read-only media and datasets with live writers can be validated.

    Args:
        path: Folder of the dataset.
        quick: Check names, sizes and the checksums of the metadata, but not the data.
        progress: Called with (steps checked, steps in all) after each part.

    Raises:
        NotADatasetError: `path` does not hold a dataset.
        FormatVersionError: A later version of wmtk wrote the dataset.

    Example:
        >>> from wmtk.datasets import validate
        >>> report = validate("catch.zarr")
        >>> report.ok, report.episodes
        (True, 8)
    """
    root = Path(path)
    schema, problems = _check_header(root)
    scan = scan_log(root)
    tags, damaged_tags = scan_tags(root)
    state = scan.exact() or scan.estimate(tags)[0]
    problems += _log_problems(scan, tags)
    problems += [Problem("error", file, what, _FIX_TAG) for file, what in damaged_tags.items()]
    entries = named_parts(state, tags)
    steps = sum(entry.steps for entry in entries.values())
    checked = 0
    for entry in entries.values() if schema else ():
        assert schema is not None
        part = part_problems(root, schema, entry, quick=quick)
        if part and _is_named(root, entry.part):  # else it was evicted in the meantime
            problems += part
        checked += entry.steps
        if progress:
            progress(checked, steps)
    present = {name for name in entries if (root / "parts" / name).is_dir()}
    problems += marker_problems(root, schema, present)
    problems += _leftovers(root, state, tags)
    problems += _strays(root, schema, present)
    return ValidationReport(
        path=root,
        version=scan.head,
        parts=len(entries),
        episodes=sum(len(entry.ids) for entry in entries.values()),
        steps=steps,
        bytes=sum(entry.bytes for entry in entries.values()),
        quick=quick,
        problems=tuple(problems),
    )


# --- header -----------------------------------------------------------------------------------


def looks_like_dataset(root: Path) -> bool:
    """Whether a folder without a readable header is a damaged dataset."""
    return (root / "parts").is_dir() and (root / "log").is_dir()


def _check_header(root: Path) -> tuple[Schema | None, list[Problem]]:
    path, schema = root / "zarr.json", None
    try:
        schema = Schema.from_json(read_header(root)["schema"])
        if is_zarr_node(path, "group"):
            return schema, []
        what = "is not the metadata of a zarr v3 group, so that zarr-python cannot open the dataset"
    except NotADatasetError:
        if not looks_like_dataset(root):
            raise
        what = "is missing" if not path.exists() else "does not describe a dataset"
    except (CorruptDatasetError, OSError) as error:
        path, what = describe_fault(error, path)
    return schema, [Problem("error", path, what, _FIX_MARKER if schema else _FIX_HEADER)]


# --- the log and the tags ---------------------------------------------------------------------


def _log_problems(scan: LogScan, tags: dict[str, Tag]) -> list[Problem]:
    problems = [Problem("error", file, what, _FIX_LOG) for file, what in scan.damaged.items()]
    for gap in scan.gaps():
        first, last = scan.folder / f"{gap[0]:08d}.json", f"{gap[-1]:08d}.json"
        if first not in scan.damaged:  # else it is listed above
            what = "is missing" if len(gap) == 1 else f"and all up to {last} are missing"
            problems.append(Problem("error", first, what, _FIX_LOG))
    for tag in tags.values():
        if tag.version > scan.head:
            what = f"ends at version {scan.head}, but the tag {tag.name!r} has {tag.version}"
            problems.append(Problem("error", scan.folder, what, _FIX_LOG))
    return problems


# --- parts ------------------------------------------------------------------------------------


def named_parts(state: DatasetState, tags: dict[str, Tag]) -> dict[str, PartEntry]:
    """Every part that is live or tagged."""
    entries = {entry.part: entry for tag in tags.values() for entry in tag.parts}
    return {**entries, **{entry.part: entry for entry in state.parts}}


def _is_named(root: Path, part: str) -> bool:
    """Whether the newest version or a tag names a part; True if the log cannot be read."""
    try:
        state = CommitLog(root).read()
    except DatasetError:
        return True
    return part in named_parts(state, scan_tags(root)[0])


def part_problems(
    root: Path, schema: Schema, entry: PartEntry, *, quick: bool = False
) -> list[Problem]:
    """Every fault of a part; `quick` compares names and sizes, not the bytes."""
    folder = root / "parts" / entry.part
    if not folder.is_symlink() and not folder.is_dir():
        return [_part_error(folder, f"is missing, with {len(entry.ids)} episodes")]
    try:
        records = read_attributes(folder, entry).arrays
    except (OSError, DatasetError) as error:
        return [_part_error(*describe_fault(error, folder / "zarr.json"))]
    specs = dict(schema.arrays())
    faults = {Path(p): what for p, what in file_problems(folder, specs, records, entry.rows)}
    for path in () if quick else specs.keys() & records.keys():
        for file, what in verify_files(folder / path, specs[path], records[path]):
            faults.setdefault(file, what)
    if faults or quick:
        return [_part_error(file, faults[file]) for file in sorted(faults)]
    return _content_problems(root, schema, entry)


def _content_problems(root: Path, schema: Schema, entry: PartEntry) -> list[Problem]:
    """Decode every episode and compare it with its content id and the schema."""
    folder = root / "parts" / entry.part
    problems = []
    breaches: dict[str, str] = {}  # by array, the first value beyond its bounds
    try:
        reader = PartReader(root, schema, entry)
        reader.require_arrays()
        for name, episode in zip(entry.ids, reader.episodes(), strict=True):
            if episode.id != name:
                what = f"holds an episode {name} whose content has another id"
                problems.append(_part_error(folder, what))
                continue
            try:
                episode.check_form(schema)
            except DatasetError as error:
                what = f"holds an invalid episode {name}: {error.message}"
                problems.append(_part_error(folder, what))
                continue
            for breach in episode.breaches(schema):
                what = f"holds {breach.message.rstrip('.')} (episode {name})"
                breaches.setdefault(breach.key, what)
    except (DatasetError, OSError, ValueError, KeyError) as error:
        text = error.message if isinstance(error, DatasetError) else str(error)
        problems.append(_part_error(folder, f"cannot be read: {text}"))
    return problems + [Problem("warning", folder, what, _FIX_BOUNDS) for what in breaches.values()]


def _part_error(path: Path, what: str) -> Problem:
    return Problem("error", path, what.rstrip("."), _FIX_PART)


def unnamed_parts(root: Path, state: DatasetState, tags: dict[str, Tag]) -> list[str]:
    """The parts on disk that no version and no tag names."""
    named = named_parts(state, tags).keys() | state.removed
    return [name for name in part_folders(root / "parts") if name not in named]


def part_folders(folder: Path) -> list[str]:
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [name for name in names if PART_ID.fullmatch(name) and (folder / name).is_dir()]


# --- other files ------------------------------------------------------------------------------


def marker_problems(root: Path, schema: Schema | None, parts: set[str]) -> Iterator[Problem]:
    """The zarr.json files without content of wmtk that zarr-python needs to list the dataset."""
    for path, metadata in markers(root, schema, parts).items():
        if not is_zarr_node(path, metadata["node_type"]):
            what = "is missing or altered, so that zarr-python cannot list the dataset"
            # Writers create these three if missing: copies may omit empty folders.
            optional = path.parent.name in {"tmp", "trash", "tags"}
            yield Problem("warning" if optional else "error", path, what, _FIX_MARKER)


def markers(root: Path, schema: Schema | None, parts: set[str]) -> dict[Path, dict[str, Any]]:
    """The path and content of each such file of a dataset with these parts."""
    names = ["parts", *[name for name in (*FOLDERS, QUARANTINE) if (root / name).is_dir()]]
    files = {root / name / "zarr.json": folder_metadata(name) for name in names}
    for part in sorted(parts) if schema else ():
        for group in _groups(schema):
            files[root / "parts" / part / group / "zarr.json"] = GROUP
    return files


def _groups(schema: Schema | None) -> list[str]:
    """The groups inside a part: obs, info and those of nested keys."""
    paths = [path for path, _ in schema.arrays()] if schema else []
    return sorted({parent.as_posix() for path in paths for parent in Path(path).parents} - {"."})


def is_zarr_node(path: Path, kind: str) -> bool:
    """Whether a zarr.json is that of a zarr v3 "group" or "array"."""
    try:
        document = atomic.parse_json(atomic.read_bytes(path, limit=atomic.MAX_JSON_BYTES), path)
    except (OSError, DatasetError):
        return False
    fields = document if isinstance(document, dict) else {}
    return fields.get("zarr_format") == 3 and fields.get("node_type") == kind


def staging_files(root: Path) -> list[Path]:
    """Incomplete log records and tags of writers that were killed."""
    folders = [root / name for name in ("log", "tags") if (root / name).is_dir()]
    return sorted(path for folder in folders for path in folder.glob(".*"))


def dead_staging(root: Path) -> list[Path]:
    """Incomplete parts whose writers are not running any more."""
    dead = []
    for folder in sorted((root / "tmp").iterdir()) if (root / "tmp").is_dir() else ():
        if folder.is_symlink() or not folder.is_dir() or not hosts.may_clean(folder):
            continue
        try:
            with atomic.FolderLock(folder, exclusive=True) as granted:
                if granted:
                    dead.append(folder)
        except OSError:
            continue
    return dead


def _leftovers(root: Path, state: DatasetState, tags: dict[str, Tag]) -> list[Problem]:
    """Files of killed writers: staging files, removed parts, parts without a commit."""
    what = "is incomplete: its writer was killed"
    left = [*dead_staging(root), *staging_files(root)]
    problems = [Problem("warning", path, what, _HARMLESS) for path in left]
    pinned = {entry.part for tag in tags.values() for entry in tag.parts}
    trash, removed = part_folders(root / "trash"), sorted(state.removed)
    for path in [root / "trash" / name for name in trash] + [root / "parts" / n for n in removed]:
        if path.name not in pinned and path.exists():
            what = "was removed from the dataset, but is not deleted yet"
            problems.append(Problem("warning", path, what, _HARMLESS))
    unnamed = unnamed_parts(root, state, tags)
    if unnamed:  # a live writer may have committed them since
        with contextlib.suppress(DatasetError):
            state = CommitLog(root).read()
        unnamed = [name for name in unnamed if name not in state.live | state.removed]
    lost = set(state.parts_of_lost_versions(unnamed))
    for name in unnamed:
        path = root / "parts" / name
        if name in lost:
            what = f"belongs to a later version than the log's last, {state.version}"
            problems.append(Problem("error", path, what, _FIX_ORPHAN))
        elif path.exists():
            what = "is in no version: its writer was killed before the commit, or is still writing"
            problems.append(Problem("warning", path, what, _FIX_ORPHAN))
    return problems


def _strays(root: Path, schema: Schema | None, parts: set[str]) -> Iterator[Problem]:
    """Files that do not belong to the dataset."""
    allowed = {
        "": re.compile("|".join(["zarr.json", "parts", QUARANTINE, *FOLDERS])),
        "parts": re.compile(rf"zarr\.json|{PART_ID.pattern}"),
        "log": re.compile(r"zarr\.json|[0-9]{8,}(\.snapshot)?\.json|\..*"),
        "tags": re.compile(r".*\.json|\..*"),  # with a dot in front: see `staging_files`
    }
    strays = [
        path
        for name, pattern in allowed.items()
        for path in (sorted((root / name).iterdir()) if (root / name).is_dir() else ())
        if not pattern.fullmatch(path.name)
    ]
    for part in sorted(parts) if schema else ():
        strays += _strays_in_part(root / "parts" / part, schema)
    for path in strays:
        what = "is a symbolic link" if path.is_symlink() else "does not belong to the dataset"
        yield Problem("warning", path, what, _FIX_STRAY)


def _strays_in_part(folder: Path, schema: Schema | None) -> list[Path]:
    if schema is None or folder.is_symlink():
        return []
    expected = {folder / group / "zarr.json" for group in ["", *_groups(schema)]}
    for path, spec in schema.arrays():
        expected |= {folder / path / "zarr.json", folder / path / data_file(spec)}
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path for path in files if path not in expected)
