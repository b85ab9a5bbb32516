"""Checks of single parts and folders of a dataset: what `validate` reports and `repair` mends."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wmtk.datasets import durable
from wmtk.datasets.header import FOLDERS, GROUP, empty_array
from wmtk.datasets.part import PART_ID, PartEntry, PartReader
from wmtk.datasets.schema import Schema
from wmtk.datasets.shard import ArrayRecord, data_file, verify_files
from wmtk.errors import DatasetError
from wmtk.spaces import ArraySpec

Severity = Literal["error", "warning"]
Progress = Callable[[int, int], None]  # how much is done, of how much
QUARANTINE = "quarantine"
REPAIR = "`wmtk data repair` keeps the episodes that are whole; or copy the file again."
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
        attributes = _attributes(folder, entry)
        records = {path: ArrayRecord(**r) for path, r in attributes["arrays"].items()}
    except DatasetError as error:
        return [_error(error.path or folder, error.message.removeprefix(f"{error.path} "))]
    except (KeyError, TypeError, AttributeError) as error:
        return [_error(folder / "zarr.json", f"does not describe a part ({error!r})")]
    specs = dict(schema.arrays())
    problems = _table_problems(folder, attributes, entry)
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
            problems += _file_problems(folder / path, specs[path], records[path])
    problems.sort(key=lambda problem: problem.path)
    return problems if problems or quick else _content_problems(root, schema, entry)


def _attributes(folder: Path, entry: PartEntry) -> dict[str, Any]:
    """The part's own metadata, which must be what the log recorded."""
    metadata = folder / "zarr.json"
    if folder.is_symlink():
        raise DatasetError("is a symbolic link, which a dataset never contains", "", folder)
    if not folder.is_dir():
        raise DatasetError(f"is missing, with {len(entry.ids)} episodes", "", folder)
    try:
        data = durable.read_bytes(metadata)
    except FileNotFoundError as error:
        raise DatasetError("is missing", "", metadata) from error
    except OSError as error:
        raise DatasetError(f"cannot be read ({error.strerror})", "", metadata) from error
    if hashlib.sha256(data).hexdigest() != entry.digest:
        raise DatasetError("was altered (not what the log recorded)", "", metadata)
    attributes: dict[str, Any] = durable.parse(data, metadata)["attributes"]["wmtk"]
    return attributes


def _table_problems(folder: Path, attributes: dict[str, Any], entry: PartEntry) -> list[Problem]:
    """Whether part and log agree on the episodes."""
    listed = entry_of(folder.name, attributes, entry.bytes, entry.digest)
    agree = (listed.ids, listed.lengths, listed.returns, listed.ends) == (
        entry.ids,
        entry.lengths,
        entry.returns,
        entry.ends,
    )
    if agree and attributes.get("part") == entry.part:
        return []
    return [_error(folder / "zarr.json", "lists other episodes than the log")]


def entry_of(part: str, attributes: dict[str, Any], size: int, digest: str) -> PartEntry:
    """The log entry that fits a part's own metadata, not numbered yet."""
    table = attributes["episodes"]
    return PartEntry(
        part=part,
        first=-1,
        bytes=size,
        digest=digest,
        ids=tuple(str(row["id"]) for row in table),
        lengths=tuple(int(row["length"]) for row in table),
        returns=tuple(float(row["return"]) for row in table),
        ends=tuple(int(row["terminated"]) + 2 * int(row["truncated"]) for row in table),
    )


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
    try:
        reader = PartReader(root, schema, entry)
        for name, episode in zip(entry.ids, reader.episodes(), strict=True):
            if episode.id != name:
                problems.append(_error(folder, f"holds an episode {name} that is not the original"))
                continue
            try:
                episode.check(schema)
            except DatasetError as error:
                problems.append(
                    _error(folder, f"holds an impossible episode {name}: {error.message}")
                )
    except (DatasetError, OSError, ValueError, KeyError) as error:
        text = error.message if isinstance(error, DatasetError) else str(error)
        problems.append(_error(folder, f"cannot be read: {text}"))
    return problems


def _error(path: Path, what: str, fix: str = REPAIR) -> Problem:
    return Problem("error", path, what.rstrip("."), fix)


def _file_problems(folder: Path, spec: ArraySpec, record: ArrayRecord) -> list[Problem]:
    """What `verify_files` says, taken apart into path and text."""
    problems = []
    for text in verify_files(folder, spec, record):
        files = (folder / data_file(spec), folder / "zarr.json")
        path = next((file for file in files if text.startswith(f"{file} ")), folder)
        problems.append(_error(path, text.removeprefix(f"{path} ")))
    return problems


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
        document = durable.parse(durable.read_bytes(path), path)
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
        if folder.is_symlink() or not folder.is_dir():
            continue
        try:
            with durable.lock_held(folder, exclusive=True) as granted:
                if granted:
                    dead.append(folder)
        except OSError:
            continue
    return dead
