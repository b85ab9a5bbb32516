"""`validate`: look at every file of a dataset and tell everything that is wrong."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from wmtk.datasets.integrity.checks import (
    Problem,
    Progress,
    dead_staging,
    marker_problems,
    part_problems,
    staging_files,
    stray_problems,
)
from wmtk.datasets.integrity.recovery import LogScan, scan_log, scan_tags
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.commit_log import CommitLog, DatasetState
from wmtk.datasets.storage.header import read_header
from wmtk.datasets.storage.part import PART_ID, PartEntry
from wmtk.datasets.storage.retention import Tag
from wmtk.errors import DatasetError, FormatVersionError, NotADatasetError

_HARMLESS = "Harmless: the next writer or `wmtk data repair` clears it up."
_REPAIR_LOG = "`wmtk data repair` rebuilds the log; or copy the file again."
_FOUND = "`wmtk data repair` takes its episodes in, or sets it aside."


@dataclass(frozen=True)
class ValidationReport:
    """What `validate` looked at, and all that is wrong with it."""

    path: Path
    version: int
    parts: int
    episodes: int
    steps: int
    bytes: int  # in the parts that were looked at
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
    """Check every file of a dataset; damage is reported, never raised.

    `quick` checks names, sizes and the checksums of the metadata, but not the data itself.
    Nothing is written, so it works on read-only media and beside live writers.
    """
    root = Path(path)
    schema, problems = _header(root)
    scan, (tags, tag_files) = scan_log(root), scan_tags(root)
    state = scan.exact() or scan.likely(tags)[0]
    problems += _log_problems(scan, tags)
    problems += [_sealed(file, what, tag=True) for file, what in tag_files.damaged.items()]
    entries = _entries(state, tags)
    if schema is not None:
        problems += _part_problems(root, schema, entries, quick, progress)
    named = {name for name in entries if (root / "parts" / name).is_dir()}
    problems += marker_problems(root, schema, named)
    problems += _leftovers(root, state, tags)
    problems += stray_problems(root, schema, named)
    return ValidationReport(
        path=root,
        version=scan.head,
        parts=len(entries),
        episodes=sum(len(entry.ids) for entry in entries.values()),
        steps=sum(entry.steps for entry in entries.values()),
        bytes=sum(entry.bytes for entry in entries.values()),
        quick=quick,
        problems=tuple(problems),
    )


def looks_like_dataset(root: Path) -> bool:
    """Whether a folder without a readable header is a damaged dataset, not something else."""
    return (root / "parts").is_dir() and (root / "log").is_dir()


def _header(root: Path) -> tuple[Schema | None, list[Problem]]:
    file = root / "zarr.json"
    fix = (
        "Copy it again; `wmtk data repair` undoes a flipped bit, and with --header-from takes "
        "the header of a dataset with the same arrays."
    )
    try:
        header = read_header(root)
    except NotADatasetError:
        if not looks_like_dataset(root):
            raise
        what = "is missing" if not file.exists() else "does not describe a dataset"
        return None, [Problem("error", file, what, fix)]
    except FormatVersionError:
        document = atomic.parse_json(atomic.read_bytes(file), file)
        try:
            atomic.verify_checksum(document["attributes"]["wmtk"], file)
        except DatasetError:
            return None, [Problem("error", file, "was altered (its checksum is wrong)", fix)]
        raise
    except (DatasetError, OSError) as error:
        at = getattr(error, "path", None) or file
        text = error.message if isinstance(error, DatasetError) else str(error)
        return None, [Problem("error", at, text.removeprefix(f"{at} ").rstrip("."), fix)]
    return Schema.from_json(header["schema"]), []


def _log_problems(scan: LogScan, tags: dict[str, Tag]) -> list[Problem]:
    problems = [_sealed(file, what) for file, what in scan.files.damaged.items()]
    for gap in scan.gaps():
        first, last = scan.folder / f"{gap[0]:08d}.json", f"{gap[-1]:08d}.json"
        if first not in scan.files.damaged:  # else it is told already
            what = "is missing" if len(gap) == 1 else f"and all up to {last} are missing"
            problems.append(Problem("error", first, what, _REPAIR_LOG))
    for tag in tags.values():
        if tag.version > scan.head:
            what = f"ends at version {scan.head}, but the tag {tag.name!r} is of {tag.version}"
            problems.append(Problem("error", scan.folder, what, _REPAIR_LOG))
    return problems


def _sealed(file: Path, what: str, *, tag: bool = False) -> Problem:
    fix = "`wmtk data repair` sets the tag aside; or copy the file again." if tag else _REPAIR_LOG
    return Problem("error", file, what, fix)


def _entries(state: DatasetState, tags: dict[str, Tag]) -> dict[str, PartEntry]:
    """Every part that is live or tagged."""
    entries = {entry.part: entry for tag in tags.values() for entry in tag.parts}
    return {**entries, **{entry.part: entry for entry in state.parts}}


def _part_problems(
    root: Path,
    schema: Schema,
    entries: dict[str, PartEntry],
    quick: bool,
    progress: Progress | None,
) -> list[Problem]:
    problems = []
    total, done = sum(entry.steps for entry in entries.values()), 0
    for entry in entries.values():
        found = part_problems(root, schema, entry, quick=quick)
        if found and _is_wanted(root, entry.part):
            problems += found
        done += entry.steps
        if progress:
            progress(done, total)
    return problems


def _is_wanted(root: Path, part: str) -> bool:
    """Whether a part that is not as it should be was not simply evicted meanwhile."""
    try:
        live = part in CommitLog(root).read().live
    except DatasetError:
        return True
    return live or any(part == e.part for tag in scan_tags(root)[0].values() for e in tag.parts)


def _leftovers(root: Path, state: DatasetState, tags: dict[str, Tag]) -> list[Problem]:
    found = [
        Problem("warning", path, "was left half-written by a writer that died", _HARMLESS)
        for path in [*dead_staging(root), *staging_files(root)]
    ]
    pinned = {entry.part for tag in tags.values() for entry in tag.parts}
    for folder, names in (("trash", parts_in(root / "trash")), ("parts", sorted(state.removed))):
        for name in names:
            if name not in pinned and (root / folder / name).exists():
                what = "was removed, but is not deleted yet"
                found.append(Problem("warning", root / folder / name, what, _HARMLESS))
    return found + _orphan_problems(root, state, tags)


def _orphan_problems(root: Path, state: DatasetState, tags: dict[str, Tag]) -> list[Problem]:
    """Parts of no version. The log is read after they are listed: a writer may be at work."""
    present = parts_in(root / "parts")
    state = _newest(root, state)
    lost = set(state.unheard_of(present))
    found = []
    for name in orphans(present, state, tags):
        path = root / "parts" / name
        if name in lost:
            what = f"is of a later version than the log's last, {state.version}"
            found.append(Problem("error", path, what, _FOUND))
        elif path.exists():
            what = "is in no version: its writer died before the commit (or is about to commit)"
            found.append(Problem("warning", path, what, _FOUND))
    return found


def _newest(root: Path, state: DatasetState) -> DatasetState:
    """The state of this moment: others may have committed while the parts were looked at."""
    try:
        return CommitLog(root).read()
    except DatasetError:
        return state


def orphans(present: list[str], state: DatasetState, tags: dict[str, Tag]) -> list[str]:
    """The parts on disk that no version and no tag names."""
    named = state.live | state.removed | {e.part for tag in tags.values() for e in tag.parts}
    return [name for name in present if name not in named]


def parts_in(folder: Path) -> list[str]:
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [name for name in names if PART_ID.fullmatch(name) and (folder / name).is_dir()]
