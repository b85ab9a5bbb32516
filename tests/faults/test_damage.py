"""Files that are flipped, cut, extended, deleted or left out of a copy: true data or an error."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wmtk.datasets import Dataset, SequenceSampler
from wmtk.datasets.integrity.validate import validate
from wmtk.errors import DatasetError

_logger = logging.getLogger(__name__)
NUMBERS = list(range(6))


@pytest.fixture
def root(make_dataset, driver) -> Path:
    """A compacted part and three small ones, a tag, a snapshot and records after it."""
    root = make_dataset(NUMBERS[:3])
    with Dataset.open(root, "a") as dataset:
        dataset.compact()
        dataset._log.snapshot(dataset._state)
        for number in NUMBERS[3:5]:
            dataset.append(driver.episode(number))
        dataset.tag("t")
        dataset._log.snapshot(dataset._state)
        dataset.append(driver.episode(NUMBERS[5]))
    return root


@pytest.fixture
def read_all(driver) -> Callable[[Path], list[int]]:
    """Every way of reading; all must give the truth, or raise a typed error."""

    def read(root: Path) -> list[int]:
        with Dataset.open(root) as dataset:
            numbers = [driver.number_of(episode) for episode in dataset]
            assert len(numbers) == len(dataset.episodes)
            for memory in (0, 2**20):  # by chunks, and whole arrays
                sampler = SequenceSampler(dataset, batch_size=16, length=3, memory=memory)
                driver.check_batch(sampler.sample())
        return numbers

    return read


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def names_file(error: DatasetError, damaged: Path, root: Path) -> bool:
    """Whether the error leads to the damaged file: by its name, its part or its folder."""
    text = str(error)
    inner = damaged.relative_to(root).parts
    place = inner[1] if inner[0] == "parts" and len(inner) > 2 else damaged.name
    if ".snapshot." in place:
        place = "a later snapshot"
    return bool(error.hint) and (str(damaged) in text or place in text or "no zarr.json" in text)


def expect_truth_or_error(read_all, root: Path, damaged: Path, expected: list[int]) -> str:
    """Read a damaged dataset; returns "error" or "truth"."""
    raised = None
    try:
        assert read_all(root) == expected
    except DatasetError as error:
        raised = error
    assert raised is None or names_file(raised, damaged, root), (damaged, str(raised))
    return "truth" if raised is None else "error"


def flips(data: bytes, offsets: list[int]) -> Iterator[bytes]:
    for offset in offsets:
        yield data[:offset] + bytes([data[offset] ^ (1 << offset % 8)]) + data[offset + 1 :]


def sweep(read_all, root: Path, per_file: int) -> dict[str, int]:
    outcomes = {"error": 0, "truth": 0}
    rng = random.Random(0)
    for file in files_of(root):
        data = file.read_bytes()
        offsets = sorted(rng.sample(range(len(data)), min(per_file, len(data))))
        cuts = [data[:length] for length in {0, len(data) // 2, len(data) - 1}]
        for damaged in [*flips(data, offsets), *cuts, data + b"\0", b"\0" * len(data)]:
            file.write_bytes(damaged)
            outcomes[expect_truth_or_error(read_all, root, file, NUMBERS)] += 1
        file.write_bytes(data)
    assert read_all(root) == NUMBERS
    return outcomes


@pytest.mark.slow
def test_flipped_and_cut_files_are_never_read_silently(root, read_all) -> None:
    outcomes = sweep(read_all, root, 6)
    _logger.info("outcomes: %s", outcomes)
    assert outcomes["error"] > 200, outcomes


def test_every_data_file_and_every_record_that_is_needed_is_guarded(root, read_all) -> None:
    """Not a single flip in what is read may go unnoticed: only in what is not read."""
    unread = []
    for file in files_of(root):
        data = file.read_bytes()
        file.write_bytes(next(flips(data, [len(data) // 2])))
        if expect_truth_or_error(read_all, root, file, NUMBERS) == "truth":
            unread.append(file)
        file.write_bytes(data)
    names = {path.relative_to(root).parts[0] for path in unread}
    assert names <= {"parts", "log", "tags", "tmp", "trash"}
    for path in unread:
        if path.parent.name == "log":  # replaced by the newest snapshot, or the marker
            assert path.name == "zarr.json" or int(path.name[:8]) <= 6, path
        elif path.is_relative_to(root / "parts"):  # metadata for plain zarr, not for us
            assert path.name == "zarr.json", path
            assert len(path.relative_to(root).parts) != 3, path
    report_before = validate(root)
    assert not report_before.errors
    for path in unread:  # but validate looks at them all
        data = path.read_bytes()
        path.write_bytes(b"{}")
        assert validate(root).problems, path
        path.write_bytes(data)


def test_a_damaged_tag_is_refused(root, driver) -> None:
    file = root / "tags" / "t.json"
    data = file.read_bytes()
    for damaged in [*flips(data, list(range(0, len(data), 23))), data[:-20], b""]:
        file.write_bytes(damaged)
        with pytest.raises(DatasetError, match=r"t\.json"):
            Dataset.open(root, tag="t")
        with pytest.raises(DatasetError, match=r"t\.json"):
            Dataset.open(root, "a").evict(1)  # what it pins is not known: nothing is deleted
    file.write_bytes(data)
    with Dataset.open(root, tag="t") as dataset:
        assert [driver.number_of(episode) for episode in dataset] == NUMBERS[:5]


def test_deleted_files(root, read_all) -> None:
    newest = root / "log" / "00000007.json"
    assert newest.exists()
    deleted = 0
    for file in files_of(root):
        data = file.read_bytes()
        file.unlink()
        if file == newest:
            # Nothing tells this from a writer that died before its commit: the version before.
            assert read_all(root) == NUMBERS[:5]
            assert any("in no version" in problem.what for problem in validate(root).problems)
        else:
            deleted += expect_truth_or_error(read_all, root, file, NUMBERS) == "error"
        file.write_bytes(data)
    assert deleted > 20
    assert read_all(root) == NUMBERS


def test_deleted_folders(root, read_all, tmp_path) -> None:
    for folder in sorted(path for path in root.rglob("*") if path.is_dir()):
        folder.rename(tmp_path / "aside")
        if folder.name in {"tags", "tmp", "trash"}:
            assert read_all(root) == NUMBERS
        else:
            with pytest.raises(DatasetError) as caught:
                read_all(root)
            assert names_file(caught.value, folder / "x", root) or folder.name in str(caught.value)
        (tmp_path / "aside").rename(folder)
    assert read_all(root) == NUMBERS


def test_a_log_that_lost_its_end_is_refused(root) -> None:
    for name in ("00000006.json", "00000006.snapshot.json", "00000007.json"):
        (root / "log" / name).unlink(missing_ok=True)
    with pytest.raises(DatasetError, match=r"ends at version 5(.|\n)*records are missing"):
        Dataset.open(root)
    for file in (root / "log").glob("0*"):
        file.unlink()
    with pytest.raises(DatasetError, match=r"ends at version 0(.|\n)*records are missing"):
        Dataset.open(root)


@pytest.mark.parametrize("seed", range(12))
def test_a_partial_copy_is_refused_with_what_is_missing(root, read_all, tmp_path, seed) -> None:
    rng = random.Random(seed)
    newest = Path("log/00000007.json")
    fired = 0
    for trial in range(10):
        copied = shutil.copytree(root, tmp_path / f"copy{trial}")
        dropped = rng.sample(files_of(copied), rng.randint(1, 12))
        for file in dropped:
            file.unlink()
        inner = {file.relative_to(copied) for file in dropped}
        numbers, raised = None, None
        try:
            numbers = read_all(copied)
        except DatasetError as error:
            raised = error
        if raised is not None:
            assert any(names_file(raised, file, copied) for file in dropped), str(raised)
            fired += 1
        else:
            assert numbers == (NUMBERS[:5] if newest in inner else NUMBERS)
            needless = {path for path in inner if path.parent.name == "log"} - {newest}
            assert validate(copied).problems or inner <= needless
        shutil.rmtree(copied)
    assert fired


def test_empty_files_after_a_power_cut(root, read_all) -> None:
    """File systems may keep a name and lose its content: every file of the newest part."""
    part = max((root / "parts").glob("p*"))
    for file in files_of(part):
        data = file.read_bytes()
        file.write_bytes(b"")
        outcome = expect_truth_or_error(read_all, root, file, NUMBERS)
        assert outcome == "error" or file.name == "zarr.json"
        assert validate(root).errors
        file.write_bytes(data)


def test_files_that_changed_places_are_not_read_as_each_other(root, read_all) -> None:
    """Both are whole and of one size: only the part's attributes tell which is whose."""
    first, second = Dataset.open(root).parts[-2:]
    exchanged = 0
    for name in ("action/c.0", "reward/c.0", "terminated/c.0", "obs/robot/pos/c.0.0"):
        files = [root / "parts" / part.part / name for part in (first, second)]
        data = [file.read_bytes() for file in files]
        if len(data[0]) != len(data[1]) or data[0] == data[1]:
            continue
        for file, other in zip(files, reversed(data), strict=True):
            file.write_bytes(other)
        with pytest.raises(DatasetError, match=name):
            read_all(root)
        with pytest.raises(DatasetError, match=name):
            Dataset.open(root)[-1]
        for file, own in zip(files, data, strict=True):
            file.write_bytes(own)
        exchanged += 1
    assert exchanged > 1
