"""Processes that write, evict, compact, tag and read one dataset at the same time."""

from __future__ import annotations

import logging
import os
import shutil

import pytest

from wmtk.datasets import Dataset, SequenceSampler
from wmtk.datasets.storage import atomic, commit_log, part, part_reader, retention
from wmtk.errors import DatasetError, EvictedError

_logger = logging.getLogger(__name__)

# --- interleavings that are rare, brought about on purpose ------------------------------------


def test_a_writer_that_was_held_up_commits_again(
    make_dataset, driver, numbers_in, monkeypatch
) -> None:
    """Between its reading of the log and its record, others commit until that name is pruned."""
    monkeypatch.setattr(commit_log, "SNAPSHOT_EVERY", 2)
    root = make_dataset([0])
    slow, quick = Dataset.open(root, "a"), Dataset.open(root, "a")
    create, held_up = atomic.create_exclusively, []

    def late(path, data) -> None:
        if not held_up:
            held_up.append(path)
            for number in range(1, 8):
                quick.append(driver.episode(number))
            assert not path.exists()
        create(path, data)

    monkeypatch.setattr(atomic, "create_exclusively", late)
    version = slow.append(driver.episode(100))
    assert held_up
    assert version == 9
    assert numbers_in(root) == [*range(8), 100]


def test_an_eviction_that_was_held_up_deletes_nothing_that_is_live(
    make_dataset, driver, numbers_in, monkeypatch
) -> None:
    monkeypatch.setattr(commit_log, "SNAPSHOT_EVERY", 2)
    root = make_dataset(range(3))
    slow, quick = Dataset.open(root, "a"), Dataset.open(root, "a")
    create, held_up = atomic.create_exclusively, []

    def late(path, data) -> None:
        if not held_up:
            held_up.append(path)
            for number in range(3, 10):
                quick.append(driver.episode(number))
        create(path, data)

    monkeypatch.setattr(atomic, "create_exclusively", late)
    slow.evict(2 * driver.STEPS)
    assert held_up
    assert numbers_in(root) == [8, 9]


def test_a_clean_up_that_takes_a_new_staging_folder(
    make_dataset, driver, numbers_in, monkeypatch
) -> None:
    root = make_dataset([0])
    dataset = Dataset.open(root, "a")
    folder_lock, taken = atomic.FolderLock, []

    def late(path, **options):
        if path.parent.name == "tmp" and not taken:
            taken.append(path)
            shutil.rmtree(path)
        return folder_lock(path, **options)

    monkeypatch.setattr(part.atomic, "FolderLock", late)
    dataset.append(driver.episode(1))
    assert taken
    assert numbers_in(root) == [0, 1]


def test_opening_while_parts_vanish_gives_the_newest_version(
    make_dataset, driver, monkeypatch
) -> None:
    root = make_dataset(range(3))
    writer = Dataset.open(root, "a")
    listdir, left = os.listdir, [3, 4, 5]

    def slow_listing(path):
        if str(path).endswith("parts") and left:
            writer.append(driver.episode(left.pop(0)))
            monkeypatch.setattr(os, "listdir", listdir)
            writer.evict(driver.STEPS)
            monkeypatch.setattr(os, "listdir", slow_listing)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", slow_listing)
    dataset = Dataset.open(root)
    assert not left
    assert [driver.number_of(episode) for episode in dataset] == [5]


def test_a_part_that_vanishes_during_compaction_is_left_to_others(
    make_dataset, driver, numbers_in, monkeypatch, caplog
) -> None:
    """The part goes between the reading of its metadata and of its arrays."""
    root = make_dataset(range(4))
    slow, quick = Dataset.open(root, "a"), Dataset.open(root, "a")
    check = part_reader.file_problems

    def late(*arguments):
        monkeypatch.setattr(part_reader, "file_problems", check)
        quick.evict(2 * driver.STEPS)
        return check(*arguments)

    monkeypatch.setattr(part_reader, "file_problems", late)
    slow.compact()
    assert numbers_in(root) == [2, 3]
    assert slow.compact() == 1
    assert numbers_in(root) == [2, 3]


def test_following_goes_on_through_eviction_and_compaction(make_dataset, driver) -> None:
    root = make_dataset(range(6))
    writer = Dataset.open(root, "a")
    seen = []
    for episode in Dataset.open(root).follow(poll=0.01, timeout=0.2):
        seen.append(driver.number_of(episode))
        if seen[-1] == 1:
            writer.compact()
        if seen[-1] == 3:
            for number in range(6, 9):
                writer.append(driver.episode(number))
            writer.evict(2 * driver.STEPS)
    assert seen[:4] == [0, 1, 2, 3]
    assert seen[-2:] == [7, 8]
    assert sorted(set(seen)) == seen


def test_a_thread_that_refreshed_first_does_not_fail_the_others(make_dataset, driver) -> None:
    root = make_dataset(range(4))
    sampler = SequenceSampler(Dataset.open(root), batch_size=2, length=3)
    read, refreshed = sampler._reader.read, []

    def overtaken(*arguments):
        if not refreshed:
            with Dataset.open(root, "a") as writer:
                writer.evict(driver.STEPS)
            refreshed.append(sampler.refresh())  # as another thread would
            raise EvictedError("gone")
        return read(*arguments)

    sampler._reader.read = overtaken
    driver.check_batch(sampler.sample())
    assert refreshed == [True]


def test_no_tag_is_written_while_garbage_is_collected(make_dataset, driver, monkeypatch) -> None:
    """The part is on its way to the trash when the tag comes; a killed process changes nothing."""
    root = make_dataset(range(3))
    old = Dataset.open(root)
    move, locked = retention._move, []

    def watched(source, target) -> None:
        with atomic.FolderLock(root / "tags", exclusive=True) as granted:
            locked.append(not granted)
        move(source, target)

    monkeypatch.setattr(retention, "_move", watched)
    with Dataset.open(root, "a") as writer:
        writer.evict(driver.STEPS)
    assert locked == [True, True]
    with pytest.raises(EvictedError, match="2 parts of version 3"):
        old.tag("late")
    assert old.tags() == []


def test_a_tag_that_is_deleted_while_tags_are_read_is_left_out(
    make_dataset, driver, monkeypatch
) -> None:
    root = make_dataset(range(3))
    with Dataset.open(root, "a") as dataset:
        dataset.tag("a")
        dataset.tag("b")
        read, deleted = atomic.read_bytes, []

        def late(path, **options):
            if path.name == "a.json" and not deleted:
                deleted.append(path)
                path.unlink()
            return read(path, **options)

        monkeypatch.setattr(atomic, "read_bytes", late)
        assert [tag.name for tag in dataset.tags()] == ["b"]
        assert deleted


def test_the_same_dataset_is_created_once(tmp_path, driver, monkeypatch) -> None:
    first = Dataset.create(tmp_path / "d.zarr", driver.SCHEMA)
    with pytest.raises(DatasetError, match="exists already"):
        Dataset.create(tmp_path / "d.zarr", driver.SCHEMA)
    monkeypatch.setattr("wmtk.datasets.dataset.is_vacant", lambda _: True)  # a lost race
    with pytest.raises(DatasetError, match="created by another process"):
        Dataset.create(tmp_path / "d.zarr", driver.SCHEMA)
    first.append(driver.episode(0))
    assert len(Dataset.open(tmp_path / "d.zarr")) == 1


# --- real processes ---------------------------------------------------------------------------


@pytest.mark.slow
def test_two_writers_and_a_reader_with_eviction_and_compaction(
    make_dataset, driver, start, finish, numbers_in
) -> None:
    count, capacity = 150, 64
    root = make_dataset([0, 1], capacity=capacity * driver.STEPS)
    writers = [start("write", root, 1000 * (k + 1), count) for k in range(2)]
    readers = [start("read", root, 0, 8), start("follow", root, 60, 0)]
    printed = [finish(writer, timeout=120) for writer in writers]
    assert [len(numbers) for numbers in printed] == [count, count]
    episodes, batches, evicted = map(int, finish(readers[0], timeout=60))
    assert episodes > 20
    assert batches > 3
    _logger.info("read: %s", [episodes, batches, evicted])
    assert int(finish(readers[1], timeout=120)[0]) > 0
    found = numbers_in(root)
    acknowledged = [[int(number) for number in numbers] for numbers in printed]
    for mine in acknowledged:
        kept = [number for number in found if number in mine]
        assert kept == mine[count - len(kept) :]  # the oldest went, the rest is in order
    # FIFO by whole parts, each of at most capacity / 16 steps.
    assert capacity - capacity // 8 <= len(found) <= capacity
    with Dataset.open(root) as dataset:
        numbers = dataset.episodes.episode.tolist()
        assert numbers == list(range(2 + 2 * count - len(found), 2 + 2 * count))
        on_disk = {path.name for path in (root / "parts").iterdir()} - {"zarr.json"}
        with Dataset.open(root, "a"):
            on_disk = {path.name for path in (root / "parts").iterdir()} - {"zarr.json"}
        assert on_disk == {entry.part for entry in dataset.parts}


@pytest.mark.slow
def test_tags_against_eviction(make_dataset, driver, start, finish, numbers_in) -> None:
    root = make_dataset(range(4), capacity=4 * driver.STEPS)
    writers = [start("write", root, 1000 * (k + 1), 120) for k in range(2)]
    taggers = [start("tag", root, 1000 * k, 80) for k in range(2)]
    for writer in writers:
        finish(writer, timeout=120)
    tags = [tag for tagger in taggers for tag in finish(tagger, timeout=120)]
    assert len(tags) > 20
    for tag in tags:
        with Dataset.open(root, tag=tag) as dataset:
            numbers = [driver.number_of(episode) for episode in dataset]
            assert len(numbers) == dataset.num_episodes > 0
    assert len(numbers_in(root)) == 4
    with Dataset.open(root, "a") as dataset:
        for tag in tags:
            dataset.delete_tag(tag)
        on_disk = {path.name for path in (root / "parts").iterdir()} - {"zarr.json"}
        assert on_disk == {entry.part for entry in dataset.parts}
