"""Which windows a model is looked at with, and their rows."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.datasets import Dataset, split
from wmtk.errors import UsageError
from wmtk.viz.windows import Window, batches, choose_windows, held_out, read_windows


def everything(dataset: Dataset) -> np.ndarray:
    return np.ones(len(dataset), bool)


def test_windows_stay_inside_of_their_episodes(dataset: Dataset) -> None:
    """Episodes have 2 … 11 rows; those without a row after the context are left out."""
    found = choose_windows(
        dataset.episodes, everything(dataset), context=3, horizon=4, count=40, seed=1
    )
    rows = dataset.episodes.length + 1
    assert {window.episode for window in found} == set(range(2, 10))  # of 4 rows and more
    for window in found:
        assert window.rows == min(7, rows[window.episode])
        assert window.start + window.rows <= rows[window.episode]
    assert len(set(found)) == len(found)


def test_ends_are_seen_often(dataset: Dataset) -> None:
    found = choose_windows(
        dataset.episodes, everything(dataset), context=2, horizon=3, count=60, seed=0
    )
    rows = dataset.episodes.length + 1
    assert any(window.start == 0 for window in found)
    ends = [window.start + window.rows == rows[window.episode] for window in found]
    assert 0.2 < np.mean(ends) < 0.9


def test_the_choice_is_repeatable_and_limited(dataset: Dataset) -> None:
    def choose(seed: int) -> list[Window]:
        flags = everything(dataset)
        return choose_windows(
            dataset.episodes, flags, context=1, horizon=2, count=6, episodes=3, seed=seed
        )

    assert choose(0) == choose(0)
    assert choose(0) != choose(1)
    assert len({window.episode for window in choose(0)}) == 3


def test_what_makes_no_window_is_refused(dataset: Dataset) -> None:
    with pytest.raises(UsageError, match="No episode has more than 50 rows"):
        choose_windows(dataset.episodes, everything(dataset), context=50)
    with pytest.raises(UsageError, match="context of 0 and a horizon"):
        choose_windows(dataset.episodes, everything(dataset), context=0)


def test_rows_are_those_of_the_episode(dataset: Dataset) -> None:
    batch = read_windows(dataset, [Window(9, 4, 3), Window(1, 0, 3)], 5)
    episode = dataset[9]
    np.testing.assert_array_equal(batch.obs["image"][0, :3], episode.obs["image"][4:7])
    np.testing.assert_array_equal(batch.action[0, :3], episode.action[4:7])
    np.testing.assert_array_equal(batch.mask, [[1, 1, 1, 0, 0]] * 2)
    assert not batch.obs["image"][0, 3:].any()
    np.testing.assert_array_equal(batch.is_first, [[0] * 5, [1, 0, 0, 0, 0]])
    np.testing.assert_array_equal(batch.terminated[:, 2], [False, True])
    np.testing.assert_array_equal(batch.episode, [9, 1])


def test_windows_come_a_few_at_a_time(dataset: Dataset) -> None:
    windows = [Window(number, 0, 2) for number in range(5)]
    found = list(batches(dataset, windows, 2, size=2))
    assert [len(batch.reward) for batch in found] == [2, 2, 1]
    assert [int(e) for batch in found for e in batch.episode] == [0, 1, 2, 3, 4]


def test_held_out_episodes_are_those_of_training(dataset: Dataset) -> None:
    about = {"data": [{"id": dataset.id}], "val_fraction": 0.3}
    found = held_out(dataset, about)
    expected = split(0.3, held_out=True)(dataset.episodes)
    np.testing.assert_array_equal(found.episodes, expected)
    assert 0 < found.episodes.sum() < 10


@pytest.mark.parametrize(
    ("same", "fraction", "words"),
    [(False, 0.3, "not trained on this dataset"), (True, 0.0, "none was held out")],
    ids=["other dataset", "nothing held out"],
)
def test_otherwise_all_episodes_are_used(
    dataset: Dataset, same: bool, fraction: float, words: str
) -> None:
    about = {"data": [{"id": dataset.id if same else "other"}], "val_fraction": fraction}
    found = held_out(dataset, about)
    assert found.episodes.all()
    assert words in found.note
