"""Selecting and splitting episodes."""

import pytest

from wmtk.datasets import Dataset, select, split
from wmtk.errors import UsageError


def test_selection_by_length_return_and_end(make_dataset, make_episode) -> None:
    dataset = make_dataset([3, 20, 8])
    dataset.append(make_episode(9, seed=5, terminated=False, truncated=True))
    dataset.append(make_episode(2, seed=6, terminated=False))
    table = dataset.episodes
    assert table.length[select(min_length=8, max_length=9)(table)].tolist() == [8, 9]
    assert table.length[select(ended="truncated")(table)].tolist() == [9]
    assert table.length[select(ended="cut")(table)].tolist() == [2]
    least = sorted(table.total_reward)[2]
    assert select(min_return=least)(table).sum() == 3
    with pytest.raises(UsageError, match="terminated"):
        select(ended="crashed")


def test_a_split_is_a_partition_decided_by_the_content(make_dataset) -> None:
    table = make_dataset([4] * 200, at_once=True).episodes
    train, held = split(0.2, held_out=False)(table), split(0.2, held_out=True)(table)
    assert (train ^ held).all()
    assert 20 <= held.sum() <= 60
    again = make_dataset([4] * 200, name="again.zarr", at_once=True).episodes
    assert (split(0.2, held_out=True)(again) == held).all()
    assert (split(0.2, held_out=True, seed=1)(table) != held).any()


def test_an_episode_stays_on_its_side_as_the_dataset_grows(make_dataset, make_episode) -> None:
    dataset = make_dataset([4] * 40, at_once=True)
    before = split(0.3, held_out=True)(dataset.episodes)
    dataset.append(make_episode(4, seed=1000))
    assert (split(0.3, held_out=True)(dataset.episodes)[:40] == before).all()


@pytest.mark.parametrize("episodes", [2, 3, 5])
def test_neither_side_of_a_small_split_is_empty(make_dataset, episodes) -> None:
    for fraction in (0.01, 0.5, 0.99):
        dataset: Dataset = make_dataset([4] * episodes, name=f"{fraction}.zarr", at_once=True)
        assert 0 < split(fraction, held_out=True)(dataset.episodes).sum() < episodes
