"""Checks of single parts and folders of a dataset: what `validate` reports and `repair` mends."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, hosts
from wmtk.datasets.storage.header import FOLDERS, GROUP, empty_array
from wmtk.datasets.storage.part import PART_ID, PartAttributes, PartEntry, PartReader
from wmtk.datasets.storage.shard import data_file, verify_files
from wmtk.errors import DatasetError

Severity = Literal["error", "warning"]
Progress = Callable[[int, int], None]  # how much is done, of how much
QUARANTINE = "quarantine"
REPAIR = "`wmtk data repair` keeps the episodes that are whole; or copy the file again."
BOUNDS = "The data are as recorded. Correct the space in the environment before collecting more."
MARKER = "`wmtk data repair` writes it again."


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, in which file, and what to do about it."""

    severity: Severity
    path: Path
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


# --- parts ------------------------------------------------------------------------------------


def part_problems(
    root: Path, schema: Schema, entry: PartEntry, *, quick: bool = False
) -> list[Problem]:
    """Everything wrong with a part; `quick` looks at names and sizes, not at the bytes."""
    folder = root / "parts" / entry.part
    try:
        records = _attributes(folder, entry).arrays
    except DatasetError as error:
        return [_error(error.path or folder, error.message.removeprefix(f"{error.path} "))]
    specs = dict(schema.arrays())
    problems = []
    for path in sorted(specs.keys() ^ records.keys()):
        where = "declared, but not in the part" if path in specs else "not declared by the dataset"
        problems.append(_error(folder / path, f"is {where}"))
    for path in specs.keys() & records.keys():
        if records[path].rows != entry.rows:
            what = f"has {records[path].rows} rows instead of {entry.rows}"
            problems.append(_error(folder / path, what))
        elif quick:
            problems += _size_problems(folder / path / data_file(specs[path]), records[path].bytes)
        else:
            found = verify_files(folder / path, specs[path], records[path])
            problems += [_error(file, what) for file, what in found]
    problems.sort(key=lambda problem: problem.path)
    return problems if problems or quick else _content_problems(root, schema, entry)


def _attributes(folder: Path, entry: PartEntry) -> PartAttributes:
    """The part's own metadata, which must be what the log recorded."""
    metadata = folder / "zarr.json"
    if folder.is_symlink():
        raise DatasetError("is a symbolic link, which a dataset never contains", "", folder)
    if not folder.is_dir():
        raise DatasetError(f"is missing, with {len(entry.ids)} episodes", "", folder)
    try:
        data = atomic.read_bytes(metadata, limit=min(entry.bytes, atomic.MAX_JSON_BYTES))
    except FileNotFoundError as error:
        raise DatasetError("is missing", "", metadata) from error
    except OSError as error:
        raise DatasetError(f"cannot be read ({error.strerror})", "", metadata) from error
    if hashlib.sha256(data).hexdigest() != entry.digest:
        raise DatasetError("was altered (not what the log recorded)", "", metadata)
    attributes = PartAttributes.parse(data, metadata)
    attributes.require_listed(entry, metadata)
    return attributes


def _size_problems(file: Path, wanted: int) -> list[Problem]:
    try:
        size = os.lstat(file).st_size
    except OSError as error:
        return [_error(file, "is missing" if isinstance(error, FileNotFoundError) else str(error))]
    if file.is_symlink():
        return [_error(file, "is a symbolic link")]
    return [_error(file, f"has {size} bytes instead of {wanted}")] if size != wanted else []


def _content_problems(root: Path, schema: Schema, entry: PartEntry) -> list[Problem]:
    """Decode every episode and compare it with its content id and the schema."""
    folder = root / "parts" / entry.part
    problems = []
    beyond: dict[str, str] = {}  # by array, what the first episode beyond its bounds has
    try:
        reader = PartReader(root, schema, entry)
        reader.require_arrays()
        for name, episode in zip(entry.ids, reader.episodes(), strict=True):
            if episode.id != name:
                problems.append(_error(folder, f"holds an episode {name} that is not the original"))
                continue
            try:
                episode.check_form(schema)
            except DatasetError as error:
                problems.append(
                    _error(folder, f"holds an impossible episode {name}: {error.message}")
                )
                continue
            for breach in episode.breaches(schema):
                what = f"holds {breach.message.rstrip('.')} (episode {name})"
                beyond.setdefault(breach.key, what)
    except (DatasetError, OSError, ValueError, KeyError) as error:
        text = error.message if isinstance(error, DatasetError) else str(error)
        problems.append(_error(folder, f"cannot be read: {text}"))
    return problems + [Problem("warning", folder, what, BOUNDS) for what in beyond.values()]


def _error(path: Path, what: str, fix: str = REPAIR) -> Problem:
    return Problem("error", path, what.rstrip("."), fix)


# --- folders ----------------------------------------------------------------------------------


def marker_problems(root: Path, schema: Schema | None, parts: set[str]) -> Iterator[Problem]:
    """The zarr.json files that hold nothing of ours, but let plain zarr list the dataset."""
    for path, wanted in markers(root, schema, parts).items():
        if _is_zarr_node(path, wanted["node_type"]):
            continue
        what = "is missing or altered, so that plain zarr cannot list the dataset"
        # Writers make these three again, without the marker, when a copy left them out.
        small = path.parent.name in {"tmp", "trash", "tags"}
        yield Problem("warning" if small else "error", path, what, MARKER)


def markers(root: Path, schema: Schema | None, parts: set[str]) -> dict[Path, dict[str, Any]]:
    """Every such file that should be there, with its content."""
    wanted = {root / "parts" / "zarr.json": GROUP}
    for name, description in {**FOLDERS, QUARANTINE: "Damaged files that were set aside."}.items():
        if (root / name).is_dir():
            wanted[root / name / "zarr.json"] = empty_array(description)
    for part in sorted(parts):
        for path in inner_groups(schema) if schema else ():
            wanted[root / "parts" / part / path / "zarr.json"] = GROUP
    return wanted


def inner_groups(schema: Schema) -> list[str]:
    """The groups inside a part: obs, info, and those of nested keys."""
    groups = {parent.as_posix() for path, _ in schema.arrays() for parent in Path(path).parents} - {
        "."
    }
    return sorted(groups)


def _is_zarr_node(path: Path, kind: str) -> bool:
    try:
        document = atomic.parse_json(atomic.read_bytes(path, limit=atomic.MAX_MARKER_BYTES), path)
    except (OSError, DatasetError):
        return False
    if not isinstance(document, dict):
        return False
    return document.get("zarr_format") == 3 and document.get("node_type") == kind


def stray_problems(root: Path, schema: Schema | None, parts: set[str]) -> Iterator[Problem]:
    """Files that are none of the dataset's."""
    fix = "It is not read. Delete it, or move it out of the dataset."
    allowed = {
        "": re.compile("|".join(["zarr.json", "parts", QUARANTINE, *FOLDERS])),
        "parts": re.compile(rf"zarr\.json|{PART_ID.pattern}"),
        "log": re.compile(r"zarr\.json|[0-9]{8,}(\.snapshot)?\.json|\..*"),
        "tags": re.compile(r".*\.json|\..*"),  # a dot: half-written, see `staging_files`
    }
    strays = [
        root / folder / name
        for folder, pattern in allowed.items()
        for name in _names(root / folder)
        if not pattern.fullmatch(name)
    ]
    for part in sorted(parts):
        strays += _strays_in_part(root / "parts" / part, schema)
    for path in strays:
        what = "is a symbolic link" if path.is_symlink() else "does not belong to the dataset"
        yield Problem("warning", path, what, fix)


def _strays_in_part(folder: Path, schema: Schema | None) -> list[Path]:
    if schema is None or folder.is_symlink() or not folder.is_dir():
        return []
    wanted = {folder / "zarr.json"}
    for path, spec in schema.arrays():
        wanted |= {folder / path / "zarr.json", folder / path / data_file(spec)}
    wanted |= {folder / path / "zarr.json" for path in inner_groups(schema)}
    found = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return sorted(path for path in found if path not in wanted)


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def staging_files(root: Path) -> list[Path]:
    """Half-written log records and tags of writers that died."""
    return [
        root / folder / name
        for folder in ("log", "tags")
        for name in _names(root / folder)
        if name.startswith(".")
    ]


def dead_staging(root: Path) -> list[Path]:
    """Half-written parts whose writers are not alive any more."""
    dead = []
    for name in _names(root / "tmp"):
        folder = root / "tmp" / name
        if folder.is_symlink() or not folder.is_dir() or not hosts.may_clean(folder):
            continue
        try:
            with atomic.FolderLock(folder, exclusive=True) as granted:
                if granted:
                    dead.append(folder)
        except OSError:
            continue
    return dead
