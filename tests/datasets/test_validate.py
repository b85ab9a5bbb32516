"""`validate` finds every kind of damage, names the file and never raises for it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from wmtk.datasets import Dataset, Episode, Schema, merge
from wmtk.datasets.integrity.repair import repair
from wmtk.datasets.integrity.validate import validate
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.commit_log import CommitLog
from wmtk.errors import BoundsError, FormatVersionError, NotADatasetError
from wmtk.spaces import ArraySpec


def flip(path: Path, place: int = -1, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place if place >= 0 else len(data) // 2] ^= 1 << bit
    path.write_bytes(data)


@pytest.fixture
def root(make_dataset) -> Path:
    """Four live parts, and one that was evicted but is tagged."""
    with make_dataset([10, 20, 30, 40]) as dataset:
        dataset.tag("first")
        dataset.evict(90)
        return dataset.path


def files_of(root: Path, pattern: str) -> list[Path]:
    return sorted(root.glob(pattern))


def test_a_whole_dataset_has_no_problems(root):
    report = validate(root)
    assert report.ok
    assert report.problems == ()
    assert (report.parts, report.episodes, report.steps) == (4, 4, 100)
    assert report.version == 5


@pytest.mark.parametrize(
    "pattern",
    [
        "parts/*/obs/image/c.*",
        "parts/*/reward/c.*",
        "parts/*/action/zarr.json",
        "parts/*/zarr.json",
    ],
)
@pytest.mark.parametrize("damage", ["flip", "cut", "delete"])
def test_damaged_files_of_every_part_are_named(root, pattern, damage):
    for path in files_of(root, pattern):
        data = path.read_bytes()
        if damage == "flip":
            flip(path)
        elif damage == "cut":
            path.write_bytes(data[:-1])
        else:
            path.unlink()
        errors = validate(root).errors
        assert [error.path for error in errors] == [path]
        assert "repair" in errors[0].fix
        path.write_bytes(data)
    assert validate(root).ok


def test_every_problem_is_collected(root):
    damaged = files_of(root, "parts/*/reward/c.*")
    for path in damaged:
        flip(path)
    shutil.rmtree(files_of(root, "parts/p*")[0])
    flip(root / "tags" / "first.json", place=-1)
    found = {error.path for error in validate(root).errors}
    assert set(damaged[1:]) <= found
    assert root / "tags" / "first.json" in found
    assert len(found) == len(damaged)


def test_a_quick_check_sees_sizes_and_metadata(root):
    image = files_of(root, "parts/*/obs/image/c.*")[0]
    flip(image)
    assert validate(root, quick=True).ok
    assert not validate(root).ok
    image.write_bytes(b"short")
    assert [e.path for e in validate(root, quick=True).errors] == [image]
    image.unlink()
    assert [e.path for e in validate(root, quick=True).errors] == [image]


def test_an_episode_that_is_not_the_original(root):
    """Consistent checksums are not enough: content ids come from the content itself."""
    record = root / "log" / "00000002.json"
    document = json.loads(record.read_text())
    entry = document["add"][0]
    metadata = root / "parts" / entry["part"] / "zarr.json"
    metadata.write_text(metadata.read_text().replace(entry["ids"][0], "0123456789abcdef"))
    entry["ids"][0] = "0123456789abcdef"
    entry["digest"] = hashlib.sha256(metadata.read_bytes()).hexdigest()
    del document["checksum"]
    record.write_text(json.dumps(atomic.with_checksum(document)))
    (root / "tags" / "first.json").unlink()
    (error,) = validate(root).errors
    assert error.path == metadata.parent
    assert "0123456789abcdef" in error.what


def test_missing_and_damaged_log_records(root):
    (root / "log" / "00000002.json").unlink()
    flip(root / "log" / "00000004.json")
    errors = validate(root).errors
    assert {e.path.name for e in errors} == {"00000002.json", "00000004.json"}


def test_gaps_are_reported_as_ranges(make_dataset):
    with make_dataset([5] * 8) as dataset:
        for version in (3, 4, 5):
            (dataset.path / "log" / f"{version:08d}.json").unlink()
    (error,) = validate(dataset.path).errors
    assert error.path.name == "00000003.json"
    assert "00000005.json" in error.what


def test_a_log_that_ends_too_early_for_a_tag(make_dataset):
    with make_dataset([5] * 3) as dataset:
        dataset.tag("end")
    (dataset.path / "log" / "00000003.json").unlink()
    (error,) = validate(dataset.path).errors
    assert "'end'" in error.what


def test_a_log_that_ends_too_early_for_a_part(make_dataset):
    with make_dataset([5] * 4) as dataset:
        pass
    for version in (3, 4):
        (dataset.path / "log" / f"{version:08d}.json").unlink()
    report = validate(dataset.path)
    assert ["later version" in error.what for error in report.errors] == [True]
    assert len(report.warnings) == 1
    assert len(repair(dataset.path).actions) == 2
    assert validate(dataset.path).problems == ()


def test_a_damaged_snapshot(make_dataset):
    with make_dataset([5] * 3) as dataset:
        log = CommitLog(dataset.path)
        log.snapshot(log.read())
    flip(log.snapshot_path(3))
    (error,) = validate(dataset.path).errors
    assert error.path == log.snapshot_path(3)


@pytest.mark.parametrize("damage", ["delete", "cut", "flip", "zarr"])
def test_a_damaged_header(root, damage):
    header = root / "zarr.json"
    text = header.read_text()
    if damage == "delete":
        header.unlink()
    elif damage == "cut":
        header.write_text(text[: len(text) // 2])
    elif damage == "zarr":
        header.write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    else:
        header.write_text(text.replace("test/Env-v0", "test/Env-v1"))
    errors = validate(root).errors
    assert errors[0].path == header
    assert "--header-from" in errors[0].fix


def test_a_newer_format_is_not_damage(root):
    header = root / "zarr.json"
    document = json.loads(header.read_text())
    inner = document["attributes"]["wmtk"]
    inner["format"] = 99
    header.write_text(json.dumps(document))
    assert not validate(root).ok  # the checksum is wrong, so the number may be too
    del inner["checksum"]
    document["attributes"]["wmtk"] = atomic.with_checksum(inner)
    header.write_text(json.dumps(document))
    with pytest.raises(FormatVersionError):
        validate(root)


def test_what_is_not_a_dataset(tmp_path):
    with pytest.raises(NotADatasetError):
        validate(tmp_path / "absent")
    with pytest.raises(NotADatasetError):
        validate(tmp_path)


def test_leftovers_and_foreign_files_are_warnings(root):
    part = files_of(root, "parts/p*")[0]
    shutil.copytree(part, root / "tmp" / "p00000099-00000000")
    shutil.copytree(part, root / "trash" / "p00000098-00000000")
    shutil.copytree(part, root / "parts" / "p00000005-00000000")
    (root / "log" / ".00000009.json.abcd").write_text("{")
    for stray in ("notes.txt", "parts/notes.txt", "log/notes.txt", f"parts/{part.name}/notes.txt"):
        (root / stray).write_text("hello")
    (root / "link").symlink_to(root / "notes.txt")
    report = validate(root)
    assert report.ok
    assert {w.path.relative_to(root).as_posix() for w in report.warnings} == {
        "tmp/p00000099-00000000",
        "trash/p00000098-00000000",
        "parts/p00000005-00000000",
        "log/.00000009.json.abcd",
        "notes.txt",
        "parts/notes.txt",
        "log/notes.txt",
        f"parts/{part.name}/notes.txt",
        "link",
    }


def test_a_part_that_is_a_link(root, tmp_path):
    part = files_of(root, "parts/p*")[1]
    part.rename(tmp_path / "moved")
    part.symlink_to(tmp_path / "moved")
    assert any(e.path == part and "symbolic link" in e.what for e in validate(root).errors)


def test_markers_that_plain_zarr_needs(root):
    part = files_of(root, "parts/p*")[0]
    (part / "obs" / "zarr.json").unlink()
    (root / "parts" / "zarr.json").write_text("[]")
    (root / "tmp" / "zarr.json").unlink()
    report = validate(root)
    assert {e.path for e in report.errors} == {
        part / "obs" / "zarr.json",
        root / "parts" / "zarr.json",
    }
    assert [w.path for w in report.warnings] == [root / "tmp" / "zarr.json"]


def test_nothing_is_written(root):
    flip(files_of(root, "parts/*/reward/c.*")[0])
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    for path in before:
        os.chmod(path, 0o555 if path.is_dir() else 0o444)
    try:
        assert not validate(root).ok
    finally:
        for path in before:
            os.chmod(path, 0o755 if path.is_dir() else 0o644)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_beside_a_writer(make_dataset):
    with make_dataset([5, 6]) as dataset:
        assert validate(dataset.path).problems == ()


def test_progress(root):
    seen = []
    validate(root, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (100, 100)


def test_stored_values_beyond_their_bounds_are_warnings(tmp_path):
    """Datasets of older versions have them: they are read, merged and repaired as they are."""
    schema = Schema(
        obs={"state": ArraySpec("box", (1,), "float32", -1, 1)},
        action=ArraySpec("box", (1,), "float32", -1, 1),
    )
    rows = np.linspace(0, 3, 4, dtype=np.float32)[:, None]
    episode = Episode({"state": rows}, rows, np.zeros(4), terminated=True, truncated=False)
    with Dataset.create(tmp_path / "old.zarr", schema) as dataset:
        with pytest.raises(BoundsError, match=r"Episode 0 of 1: obs/state at step 2"):
            dataset.append(episode)
        assert dataset.num_episodes == 0
        dataset.append([episode] * 3, bounds=False)
    report = validate(tmp_path / "old.zarr")
    assert report.ok
    said = [problem.what.split(" at ")[0] for problem in report.warnings]
    assert said == ["holds obs/state", "holds action"]
    assert repair(tmp_path / "old.zarr").actions == ()
    merge([tmp_path / "old.zarr"], tmp_path / "new.zarr")
    assert [e.id for e in Dataset.open(tmp_path / "new.zarr")] == [episode.id] * 3
