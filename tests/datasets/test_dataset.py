"""Datasets: what is appended is read back, by us and by plain zarr, from any version."""

import shutil
import threading

import numpy as np
import pytest
import zarr

from wmtk.datasets import Dataset, Schema
from wmtk.datasets.integrity.validate import validate
from wmtk.errors import (
    DatasetError,
    EpisodeError,
    EvictedError,
    ReadOnlyError,
    TagError,
)
from wmtk.spaces import ArraySpec


def ids(dataset: Dataset) -> list[str]:
    return [episode.id for episode in dataset]


def test_episodes_come_back_with_their_provenance(make_dataset, make_episode) -> None:
    dataset = make_dataset([5, 1, 12])
    for number, steps in enumerate([5, 1, 12]):
        expected, found = make_episode(steps, seed=number), dataset[number]
        assert found.id == expected.id
        assert found.provenance == expected.provenance
        assert found.seed == number
        for path, rows in expected.arrays().items():
            np.testing.assert_array_equal(found.arrays()[path], rows)
    assert dataset[-1].length == 12
    with pytest.raises(IndexError):
        dataset[3]


def test_a_stranger_reads_everything_with_plain_zarr(make_dataset, make_episode) -> None:
    dataset = make_dataset([70, 5])
    group = zarr.open_group(dataset.path, mode="r")
    members = dict(group.members(max_depth=None))  # warnings are errors: nothing foreign is found
    for number, entry in enumerate(dataset.parts):
        episode = make_episode([70, 5][number], seed=number)
        for path, rows in episode.arrays().items():
            np.testing.assert_array_equal(members[f"parts/{entry.part}/{path}"][:], rows)
        table = group[f"parts/{entry.part}"].attrs["wmtk"]["episodes"]
        assert table[0]["return"] == episode.total_reward
    assert Schema.from_json(group.attrs["wmtk"]["schema"]) == dataset.schema


def test_several_episodes_are_one_commit(make_dataset, make_episode) -> None:
    dataset = make_dataset([])
    assert dataset.append([make_episode(3, seed=s) for s in range(4)]) == 1
    assert (dataset.num_episodes, dataset.num_steps, len(dataset.parts)) == (4, 12, 1)


def test_a_batch_with_one_wrong_episode_is_not_written(make_dataset, make_episode) -> None:
    dataset = make_dataset([4])
    bad = make_episode(3, reward=np.array([0, 1, np.nan, 2]))
    with pytest.raises(EpisodeError, match=r"Episode 1 of 2: reward .* step 2"):
        dataset.append([make_episode(3), bad])
    assert Dataset.open(dataset.path).num_episodes == 1
    assert len(list((dataset.path / "parts").iterdir())) == 2  # zarr.json and the first part


def test_two_handles_append_to_one_dataset(make_dataset, make_episode) -> None:
    first = make_dataset([2])
    second = Dataset.open(first.path, "a")
    for number in range(10):
        (first, second)[number % 2].append(make_episode(3, seed=100 + number))
    expected = [make_episode(2, seed=0).id] + [make_episode(3, seed=100 + n).id for n in range(10)]
    first.refresh()
    assert ids(first) == expected


def test_compaction_keeps_the_episodes_their_order_and_numbers(make_dataset) -> None:
    dataset = make_dataset([5, 7, 3, 9])
    before, numbers = ids(dataset), dataset.episodes.episode.tolist()
    assert dataset.compact() == 3
    assert len(dataset.parts) == 1
    assert ids(dataset) == before
    assert dataset.episodes.episode.tolist() == numbers
    assert len(list((dataset.path / "parts").iterdir())) == 2


def test_small_parts_are_joined_while_appending(make_dataset, monkeypatch) -> None:
    monkeypatch.setattr("wmtk.datasets.storage.compaction.TARGET_STEPS", 100)
    dataset = make_dataset([10] * 45)
    assert len(dataset.parts) <= 4 + 10
    assert dataset.num_steps == 450
    assert dataset.episodes.episode.tolist() == list(range(45))


def test_capacity_evicts_the_oldest_and_frees_the_disk(make_dataset, make_episode) -> None:
    dataset = make_dataset([10] * 30, capacity=100)
    assert dataset.num_steps == 100
    assert ids(dataset) == [make_episode(10, seed=s).id for s in range(20, 30)]
    assert dataset.episodes.episode.tolist() == list(range(20, 30))
    on_disk = {p.name for p in (dataset.path / "parts").iterdir() if p.is_dir()}
    assert on_disk == {entry.part for entry in dataset.parts}
    assert [p for p in (dataset.path / "trash").iterdir() if p.is_dir()] == []


def test_an_episode_longer_than_the_capacity_is_kept_whole(make_dataset) -> None:
    assert make_dataset([10, 150], capacity=100).num_steps == 150


@pytest.mark.parametrize(
    ("before", "held"), [([], 50), ([10] * 500, 1000), ([4000], 50), ([2000, *[30] * 20], 650)]
)
def test_a_capacity_is_used_however_large_the_commits_are(
    make_dataset, make_episode, before, held
) -> None:
    """Commits larger than the capacity, small ones after large ones, and parts from before it."""
    dataset = make_dataset([], capacity=1000)
    if before:
        dataset.capacity = None
        dataset.append([make_episode(length, seed=s) for s, length in enumerate(before)])
        dataset.capacity = 1000
    first = len(before)
    dataset.append([make_episode(10, seed=10_000 + s) for s in range(5)])
    assert dataset.num_steps == held
    dataset.append([make_episode(10, seed=s) for s in range(400)])
    assert 1000 - 1000 // 8 <= dataset.num_steps <= 1000
    last = first + 5 + 400
    assert dataset.episodes.episode.tolist() == list(range(last - len(dataset), last))
    assert ids(dataset)[-1] == make_episode(10, seed=399).id
    assert not validate(dataset.path).problems


def test_a_tag_keeps_what_eviction_removes_until_it_is_deleted(make_dataset) -> None:
    dataset = make_dataset([10] * 5)
    before = ids(dataset)
    dataset.tag("five", note="before eviction")
    assert dataset.evict(20) == 30
    tagged = Dataset.open(dataset.path, tag="five")
    assert ids(tagged) == before
    assert not tagged.refresh()
    assert [(tag.name, tag.episodes) for tag in dataset.tags()] == [("five", 5)]
    dataset.delete_tag("five")
    with pytest.raises(EvictedError, match="was evicted"):
        tagged[0]
    assert len(list((dataset.path / "parts").iterdir())) == 1 + 2


def test_tag_names_are_checked_and_unique(make_dataset) -> None:
    dataset = make_dataset([3])
    dataset.tag("a")
    with pytest.raises(TagError, match="exists already"):
        dataset.tag("a")
    with pytest.raises(TagError, match="is not a valid name"):
        dataset.tag("../a")
    with pytest.raises(TagError, match="Its tags: a"):
        Dataset.open(dataset.path, tag="b")


def test_an_old_snapshot_gives_its_data_or_a_typed_error(make_dataset, make_episode) -> None:
    writer = make_dataset([10] * 5)
    reader = Dataset.open(writer.path)
    writer.append(make_episode(10, seed=77))
    assert reader.num_episodes == 5
    writer.evict(30)
    with pytest.raises(EvictedError):
        reader[0]
    assert reader[4].id == make_episode(10, seed=4).id
    assert reader.refresh()
    assert ids(reader) == [make_episode(10, seed=s).id for s in (3, 4, 77)]


def test_an_old_version_is_opened_by_number(make_dataset, make_episode) -> None:
    dataset = make_dataset([3, 4, 5])
    assert ids(Dataset.open(dataset.path, version=2)) == [
        make_episode(3, seed=0).id,
        make_episode(4, seed=1).id,
    ]


def test_an_evicted_version_raises_evicted_error(make_dataset) -> None:
    dataset = make_dataset([10] * 5)
    dataset.evict(20)
    with pytest.raises(EvictedError, match="parts of version 4"):
        Dataset.open(dataset.path, version=4)


def test_follow_gives_every_episode_once_through_compaction(make_dataset, make_episode) -> None:
    writer = make_dataset([3, 4])
    reader = Dataset.open(writer.path)

    def write() -> None:
        for seed in range(2, 6):
            writer.append(make_episode(3, seed=seed))
            writer.compact()

    thread = threading.Thread(target=write)
    found = []
    for episode in reader.follow(poll=0.01, timeout=3):
        found.append(episode.seed)
        if len(found) == 2:
            thread.start()
        if len(found) == 6:
            break
    thread.join()
    assert found == [0, 1, 2, 3, 4, 5]


def test_a_dataset_opened_for_reading_cannot_be_changed(make_dataset, make_episode) -> None:
    reader = Dataset.open(make_dataset([3]).path)
    for change in (
        lambda: reader.append(make_episode(3)),
        lambda: reader.evict(1),
        reader.compact,
        lambda: reader.delete_tag("x"),
    ):
        with pytest.raises(ReadOnlyError, match="opened for reading"):
            change()


def test_an_existing_folder_is_not_overwritten(make_dataset, schema) -> None:
    dataset = make_dataset([3])
    with pytest.raises(DatasetError, match="exists already"):
        Dataset.create(dataset.path, schema)


def test_a_copy_without_empty_folders_can_be_appended_to(make_dataset, make_episode) -> None:
    dataset = make_dataset([3])
    dataset.close()
    for name in ("tmp", "trash", "tags"):
        shutil.rmtree(dataset.path / name)
    with Dataset.open(dataset.path, "a") as again:
        again.append(make_episode(4, seed=1))
        assert again.num_episodes == 2


@pytest.mark.parametrize(
    "action",
    [
        ArraySpec("box", (2,), "float32", -1.0, 1.0),
        ArraySpec("multi_discrete", (2,), "int64", (0, 0), (2, 4)),
        ArraySpec("multi_binary", (3,), "int8", 0, 1),
    ],
    ids=str,
)
def test_every_kind_of_action_is_kept(tmp_path, make_episode, schema, action) -> None:
    rows = np.zeros((11, *action.shape), action.dtype)
    rows[1:] = 1
    episode = make_episode(10, action=rows)
    dataset = Dataset.create(tmp_path / "d", Schema(schema.obs, action, info=schema.info))
    dataset.append(episode)
    np.testing.assert_array_equal(Dataset.open(dataset.path)[0].action, rows)
