"""A dataset on a read-only medium, and a clock that steps back."""

from __future__ import annotations

import contextlib
import datetime
import os
import types
from collections.abc import Iterator

import pytest

from wmtk.datasets import Dataset, Prefetcher, SequenceSampler
from wmtk.datasets.integrity.validate import validate
from wmtk.datasets.storage import atomic
from wmtk.errors import ReadOnlyError

NOBODY = 65534


def read_in_every_way(root, driver) -> None:
    with Dataset.open(root) as dataset:
        assert [driver.number_of(episode) for episode in dataset] == [0, 1, 2]
        assert [row["seed"] for row in dataset.describe()] == [0, 1, 2]
        assert len(list(dataset.follow(timeout=0.0, poll=0.01))) == 3
        assert not dataset.refresh()
        assert [tag.name for tag in dataset.tags()] == ["t"]
        sampler = SequenceSampler(dataset, batch_size=4, length=3)
        with Prefetcher(sampler) as batches:
            driver.check_batch(next(batches))
        with pytest.raises(ReadOnlyError, match="opened for reading"):
            dataset.append(driver.episode(3))
    for old in ({"tag": "t"}, {"version": 2}):
        assert len(Dataset.open(root, **old)) == 2
    assert not validate(root).errors


@pytest.fixture
def root(make_dataset, driver):
    root = make_dataset(range(2))
    with Dataset.open(root, "a") as dataset:
        dataset.tag("t")
        dataset.append(driver.episode(2))
    return root


def assert_not_writable(root, driver) -> None:
    with pytest.raises(ReadOnlyError, match="cannot be written") as caught:
        Dataset.open(root, "a")
    assert caught.value.hint
    with pytest.raises(ReadOnlyError, match="cannot be written"):
        Dataset.open(root).tag("new")
    with pytest.raises(ReadOnlyError, match="cannot be written"):
        Dataset.create(root / "inner.zarr", driver.SCHEMA)


def test_a_read_only_file_system(root, driver, tmp_path, mount) -> None:
    view = mount(tmp_path / "view", "-o", "bind,ro", str(root))
    with pytest.raises(OSError, match="Read-only"):
        (view / "x").touch()
    read_in_every_way(view, driver)
    assert_not_writable(view, driver)
    assert len(Dataset.open(root)) == 3


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """As somebody to whom permissions apply, which they do not to root."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_read_only_permissions(root, driver) -> None:
    read_in_every_way(root, driver)  # everything is imported before the user changes
    folders = [root, *[path for path in root.rglob("*") if path.is_dir()]]
    for folder in folders:
        folder.chmod(0o555)
    root.parent.chmod(0o755)
    try:
        with unprivileged():
            with pytest.raises(PermissionError):
                (root / "x").touch()
            read_in_every_way(root, driver)
            assert_not_writable(root, driver)
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.fixture
def backward_clock(monkeypatch) -> list[datetime.datetime]:
    """Every look at the clock is a day before the last one, in file times too."""
    shown: list[datetime.datetime] = []

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            shown.append(datetime.datetime(2030, 1, 1, tzinfo=tz) - datetime.timedelta(len(shown)))
            return shown[-1]

    clock = types.SimpleNamespace(**{**vars(datetime), "datetime": Clock})
    monkeypatch.setattr(atomic, "datetime", clock)
    return shown


def test_the_order_is_that_of_the_commits_not_of_the_clock(
    make_dataset, driver, numbers_in, backward_clock
) -> None:
    root = make_dataset(range(4))
    with Dataset.open(root, "a") as dataset:
        for number in range(4, 8):
            dataset.append(driver.episode(number))
        dataset.tag("t")
    assert len(backward_clock) > 10, "the clock was not asked"
    for age, path in enumerate(sorted(root.rglob("*"))):
        os.utime(path, (2e9 - age, 2e9 - age))
    assert numbers_in(root) == list(range(8))
    with Dataset.open(root, "a") as dataset:
        assert dataset.episodes.episode.tolist() == list(range(8))
        dataset.evict(6 * driver.STEPS)
        assert numbers_in(root) == list(range(2, 8))
        dataset.compact()
        dataset.append(driver.episode(8))
        dataset._log.snapshot(dataset._state)
    assert numbers_in(root) == list(range(2, 9))
    assert numbers_in(root, tag="t") == list(range(8))
    times = [part.created for part in created(root)]
    assert times != sorted(times)


def created(root):
    with Dataset.open(root) as dataset:
        for entry in dataset.parts:
            yield dataset.open_part(entry).attributes
