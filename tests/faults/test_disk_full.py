"""A disk that is full: in bytes, in files, or by a limit on the size of a file."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.storage import compaction
from wmtk.errors import StorageFullError

PAGE = 4096


@pytest.fixture
def small_disk(tmp_path, mount) -> Path:
    return mount(tmp_path / "disk", "-t", "tmpfs", "-o", "size=2200k,nr_inodes=1000", "none")


def assert_clean(root: Path) -> None:
    """No trace of what could not be written."""
    live = {entry.part for entry in Dataset.open(root).parts}
    assert {path.name for path in (root / "parts").iterdir()} == live | {"zarr.json"}
    assert os.listdir(root / "tmp") == ["zarr.json"]
    assert not [name for name in os.listdir(root / "log") if name.startswith(".")]


def fill(folder: Path, free: int) -> list[Path]:
    """Leave `free` pages."""
    filler = folder / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(PAGE))
    os.truncate(filler, filler.stat().st_size - PAGE * free)
    return [filler]


def use_up(folder: Path, free: int) -> list[Path]:
    """Leave `free` files."""
    spare = os.statvfs(folder).f_ffree - free
    files = [folder / f"filler{number}" for number in range(spare)]
    for file in files:
        file.touch()
    return files


def test_a_full_disk_loses_nothing_and_goes_on_with_room(
    small_disk, driver, numbers_in, caplog
) -> None:
    root = small_disk / "d.zarr"
    acknowledged = []
    dataset = Dataset.create(root, driver.SCHEMA)

    def append_for_ever() -> None:
        for number in range(1000):
            dataset.append(driver.episode(number, steps=500))
            acknowledged.append(number)

    with pytest.raises(StorageFullError, match="No space left") as caught:
        append_for_ever()
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert "intact" in caught.value.hint
    assert len(acknowledged) > 5
    assert numbers_in(root) == acknowledged
    assert_clean(root)
    assert dataset.evict(2000) > 0  # which itself needs room for a record
    dataset.append(driver.episode(2000, steps=500))
    assert numbers_in(root)[-2:] == [acknowledged[-1], 2000]


@pytest.mark.parametrize("exhaust", [fill, use_up])
def test_every_step_of_an_append_may_find_the_disk_full(
    small_disk, driver, numbers_in, caplog, monkeypatch, exhaust
) -> None:
    """From no room at all to enough, a page or a file at a time, with a compaction at the end."""
    monkeypatch.setattr(compaction, "TARGET_STEPS", 2 * driver.STEPS)
    root = small_disk / "d.zarr"
    dataset = Dataset.create(root, driver.SCHEMA)
    dataset.append(driver.episode(0))
    acknowledged, failed, put_off = [0], 0, 0
    for free in range(200):
        fillers = exhaust(small_disk, free)
        caplog.clear()
        number = len(acknowledged)
        try:
            with caplog.at_level(logging.WARNING):
                dataset.append(driver.episode(number))
            acknowledged.append(number)
        except StorageFullError:
            failed += 1
        for filler in fillers:
            filler.unlink()
        assert [driver.number_of(episode) for episode in Dataset.open(root)] == acknowledged
        put_off += "put off" in caplog.text
        if "put off" not in caplog.text:
            assert_clean(root)
            if number in acknowledged and put_off:
                break
    assert failed > 5, "the disk was never full"
    assert put_off, "no compaction met a full disk"
    dataset.append(driver.episode(len(acknowledged)))
    assert numbers_in(root) == [*acknowledged, len(acknowledged)]
    dataset.compact()
    assert numbers_in(root) == [*acknowledged, len(acknowledged)]
    assert_clean(root)


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_limit_on_the_size_of_files(make_dataset, driver, numbers_in) -> None:
    """Writes are cut short before they fail, as they are on a disk that fills up."""
    root = make_dataset([0])
    dataset = Dataset.open(root, "a")
    causes: list[BaseException | None] = []
    for size in range(0, 8000, 97):
        try:
            with file_size_limit(size):
                dataset.append(driver.episode(1, steps=50))
            break
        except StorageFullError as error:
            causes.append(error.__cause__)
        assert numbers_in(root) == [0]
        assert_clean(root)
    assert len(causes) > 10
    assert {cause.errno for cause in causes if isinstance(cause, OSError)} == {errno.EFBIG}
    assert numbers_in(root) == [0, 1]


def test_a_tag_on_a_full_disk(small_disk, driver, numbers_in) -> None:
    root = small_disk / "d.zarr"
    dataset = Dataset.create(root, driver.SCHEMA)
    dataset.append(driver.episode(0))
    (filler,) = fill(small_disk, 0)
    with pytest.raises(StorageFullError):
        dataset.tag("t")
    assert dataset.tags() == []
    filler.unlink()
    dataset.tag("t")
    assert numbers_in(root, tag="t") == [0]
    assert sorted(os.listdir(root / "tags")) == ["t.json", "zarr.json"]
