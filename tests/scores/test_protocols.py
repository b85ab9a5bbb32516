"""Normalizing and aggregating, by hand and against the paper's Table 1."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk import stats
from wmtk.scores import (
    References,
    aggregate,
    aggregate_intervals,
    bootstrap_interval,
    games,
    normalize,
    published,
    references,
)

# As the paper prints it: gamer median, gamer mean, record mean, clipped record mean.
TABLE_1 = {
    "dreamerv2": ("2.15", "11.33", "0.44", "0.28"),
    "iqn": ("1.29", "8.85", "0.21", "0.21"),
    "rainbow": ("1.47", "9.12", "0.17", "0.17"),
}
NAMES = ("gamer_median", "gamer_mean", "record_mean", "clipped_record_mean")
CELLS = [
    (agent, name, value)
    for agent, row in TABLE_1.items()
    for name, value in zip(NAMES, row, strict=True)
]

# Three games; the gamer has 10, 20 and 100 above random play, the record 20, 200 and 1000.
SMALL = References(np.array([0.0, 10, -50]), np.array([10.0, 30, 50]), np.array([20.0, 210, 950]))


@pytest.mark.parametrize(("agent", "protocol", "printed"), CELLS)
def test_table_1(agent, protocol, printed):
    scores = [published(agent)[game] for game in games()]
    assert f"{aggregate(scores, references(games()))[protocol]:.2f}" == printed


@pytest.mark.parametrize(
    ("agent", "gamer_mean"), [("dreamerv2", 11.25), ("iqn", 8.76), ("rainbow", 9.03)]
)
def test_whole_numbers_would_not_give_its_gamer_mean(paper, agent, gamer_mean):
    """Why random and gamer have decimals; without those of Double Dunk the means are 1% lower."""
    columns = {name: np.array([*paper[name].values()], float) for name in paper}
    rounded = References(columns["random"], columns["gamer"], columns["record"])
    found = aggregate(columns[agent], rounded)
    assert found["gamer_mean"] == pytest.approx(gamer_mean, abs=0.005)
    for name, printed in zip(NAMES, TABLE_1[agent], strict=True):
        if name != "gamer_mean":
            assert f"{found[name]:.2f}" == printed
    dunk = games().index("double_dunk")
    rounded.random[dunk], rounded.gamer[dunk] = -18.6, -16.4
    again = aggregate(columns[agent], rounded)["gamer_mean"]
    assert again == pytest.approx(float(TABLE_1[agent][1]), abs=0.011)


def test_normalize_by_hand():
    scores = np.array([[5, 30, -50], [20, 0, 250]])
    np.testing.assert_allclose(
        normalize(scores, SMALL.random, SMALL.gamer), [[0.5, 1, 0], [2, -0.5, 3]]
    )
    np.testing.assert_allclose(
        normalize(scores, SMALL.random, SMALL.gamer, clip=True), [[0.5, 1, 0], [1, -0.5, 1]]
    )
    assert normalize(7, 5, 9).item() == 0.5


def test_aggregate_by_hand():
    # Gamer normalized 0.5, 1 and 0; record normalized 0.25, 0.1 and 0.
    found = aggregate([5, 30, -50], SMALL)
    assert found == pytest.approx(
        {
            "gamer_median": 0.5,
            "gamer_mean": 0.5,
            "record_mean": 0.35 / 3,
            "clipped_record_mean": 0.35 / 3,
        }
    )


def test_seeds_are_averaged_last():
    # Gamer normalized (0, 1, 5) and (9, 1, 0): both medians are 1, that of the mean is 2.5.
    # Record normalized (0, 0.1, 0.5) and (4.5, 0.1, 0): clipped 0.6 / 3 and 1.1 / 3.
    scores = np.array([[0, 30, 450], [90, 30, -50]])
    found = aggregate(scores, SMALL)
    assert found["gamer_median"] == pytest.approx(1)
    assert found["gamer_mean"] == pytest.approx((6 / 3 + 10 / 3) / 2)
    assert found["record_mean"] == pytest.approx((0.6 / 3 + 4.6 / 3) / 2)
    assert found["clipped_record_mean"] == pytest.approx((0.6 / 3 + 1.1 / 3) / 2)
    averaged = aggregate(scores.mean(0), SMALL)
    assert averaged["gamer_median"] == pytest.approx(2.5)
    assert averaged["clipped_record_mean"] == pytest.approx((1 + 0.1 + 0.25) / 3)


def test_an_interval_over_seeds_is_that_of_the_mean_where_there_is_one_game():
    one = References(*(column[:1] for column in SMALL))
    scores = np.array([[3.0], [8.0], [1.0], [15.0]])
    found = aggregate_intervals(scores, one, seed=3, resamples=500)
    by_hand = bootstrap_interval(scores[:, 0] / 10, seed=3, resamples=500)
    assert found["gamer_mean"] == pytest.approx(by_hand)
    assert found["gamer_median"] == pytest.approx(by_hand)
    halved = bootstrap_interval(scores[:, 0] / 20, seed=3, resamples=500)
    assert found["record_mean"] == pytest.approx(halved)


def test_an_interval_over_games_of_one_seed_is_that_of_their_mean():
    scores = np.array([5, 30, 250])
    found = aggregate_intervals(scores, SMALL, over_games=True, seed=1, resamples=400)
    assert found["gamer_mean"] == pytest.approx(
        bootstrap_interval([0.5, 1, 3], seed=1, resamples=400)
    )


def test_intervals_over_seeds_and_over_games():
    rng = np.random.default_rng(0)
    scores = SMALL.gamer + rng.normal(0, 5, (5, 3)) + np.array([0, 40, 0])
    seeds = aggregate_intervals(scores, SMALL, resamples=1000)
    both = aggregate_intervals(scores, SMALL, resamples=1000, over_games=True)
    found = aggregate(scores, SMALL)
    for name in NAMES:
        assert seeds[name].low < found[name] < seeds[name].high
    width = {
        kind: found["gamer_mean"].high - found["gamer_mean"].low
        for kind, found in {"seeds": seeds, "both": both}.items()
    }
    assert width["both"] > 3 * width["seeds"]
    narrow = aggregate_intervals(scores, SMALL, resamples=1000, confidence=0.5)
    assert seeds["gamer_mean"].low < narrow["gamer_mean"].low
    assert narrow["gamer_mean"].high < seeds["gamer_mean"].high


def test_seeds_of_different_games_are_drawn_apart():
    """Where one game rises as the other falls from seed to seed, their sum still varies."""
    two = References(*(column[:2] for column in SMALL))
    opposite = np.array([[0, 30], [10, 10]])
    assert aggregate(opposite, two)["gamer_mean"] == 0.5
    low, high = aggregate_intervals(opposite, two, resamples=1000)["gamer_mean"]
    assert (low, high) == (0, 1)


def test_equal_seeds_leave_no_doubt():
    same = np.tile([5, 30, -50], (4, 1))
    for name, interval in aggregate_intervals(same, SMALL, resamples=100).items():
        assert interval == pytest.approx([aggregate(same, SMALL)[name]] * 2)


def test_intervals_do_not_depend_on_how_much_is_held_in_memory(monkeypatch):
    scores = np.random.default_rng(0).normal(20, 9, (4, 3))
    whole = aggregate_intervals(scores, SMALL, resamples=300)
    monkeypatch.setattr(stats, "BLOCK", 12 * 7)
    assert aggregate_intervals(scores, SMALL, resamples=300) == whole


@pytest.mark.parametrize(
    "scores", [np.zeros((2, 4)), np.zeros((2, 2, 3)), [1, 2, np.nan]], ids=["wide", "deep", "nan"]
)
def test_wrong_arrays_are_refused(scores):
    with pytest.raises(AssertionError):
        aggregate(scores, SMALL)


def test_one_seed_has_no_interval_over_seeds():
    with pytest.raises(AssertionError, match="resampling needs several seeds"):
        aggregate_intervals([5, 30, -50], SMALL)
