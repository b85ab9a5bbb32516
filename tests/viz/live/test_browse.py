"""Datasets for the page: lists, filters, steps, pictures."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from wmtk.errors import UsageError
from wmtk.viz.live import browse

NO_FILTER = {
    "offset": 0,
    "limit": 24,
    "order": "number",
    "descending": False,
    "min_return": None,
    "max_return": None,
    "min_length": None,
    "max_length": None,
    "ended": None,
}


@pytest.fixture
def entry(make_catalog):
    return make_catalog().data("d0")


def pixels(data: bytes):
    return np.asarray(Image.open(io.BytesIO(data)))


def test_episodes_are_listed_filtered_and_put_in_order(entry) -> None:
    everything = browse.listing(entry, **NO_FILTER)
    returns = [row["return"] for row in everything["episodes"]]
    assert returns == [episode.total_reward for episode in entry.dataset]
    best = browse.listing(entry, **(NO_FILTER | {"order": "return", "descending": True}))
    assert [row["return"] for row in best["episodes"]] == sorted(returns, reverse=True)
    limit = sorted(returns)[3]
    some = browse.listing(entry, **(NO_FILTER | {"min_return": limit}))
    assert some["total"] == sum(value >= limit for value in returns)
    assert browse.listing(entry, **(NO_FILTER | {"ended": "truncated"}))["total"] == 0
    page = browse.listing(entry, **(NO_FILTER | {"offset": 4, "limit": 1}))
    assert [row["index"] for row in page["episodes"]] == [4]
    with pytest.raises(UsageError, match="sorted by"):
        browse.listing(entry, **(NO_FILTER | {"order": "__class__"}))


def test_an_episode_is_told_step_by_step(entry) -> None:
    episode = entry.dataset[2]
    found = browse.details(entry, 2)
    assert found["length"] == episode.length == len(found["actions"]) - 1
    names = ["left", "stay", "right"]
    assert found["actions"][1:] == [names[action] for action in episode.action[1:]]
    np.testing.assert_array_equal(found["rewards"], episode.reward)
    assert found["provenance"]["policy"] == "random"
    with pytest.raises(UsageError, match="no episode 99"):
        browse.details(entry, 99)


def test_pictures_are_those_of_the_steps(entry) -> None:
    episode = entry.dataset[2]
    sheet = pixels(browse.sprites(entry, 2, 64))
    assert sheet.shape == (2 * 64, 8 * 64, 3)  # 16 of 80 rows are left
    np.testing.assert_array_equal(sheet[64:, 64:128, 0], episode.obs["image"][64 + 9, ..., 0])
    strip = pixels(browse.thumbnail(entry, 2))
    assert strip.shape == (64, 5 * 64, 3)
    np.testing.assert_array_equal(strip[:, -64:, 0], episode.obs["image"][-1, ..., 0])
    with pytest.raises(UsageError, match="no images of these steps"):
        browse.sprites(entry, 2, 640)


def test_a_dataset_is_summed_up(entry) -> None:
    found = browse.overview(entry)
    assert found["episodes"] == 6
    assert found["task"] == "wmtk/Catch-v0"
    assert found["provenance"][0]["policy"] == "random"
