"""Imagined against real returns over checkpoints, by hand and as others compute it."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.viz import metrics


def test_means_and_their_order_by_hand() -> None:
    truth = [[1.0, 3.0], [2.0, 4.0], [5.0, 7.0]]
    imagined = [[2.0, 2.0], [1.0, 1.0], [9.0, 9.0]]
    found = metrics.training_returns(truth, imagined, resamples=200)
    np.testing.assert_allclose(found.true.value, [2, 3, 6])
    np.testing.assert_allclose(found.imagined.value, [2, 1, 9])
    np.testing.assert_allclose(found.bias.value, [0, -2, 3])
    assert found.rank_correlation.value == pytest.approx(0.5)  # 2, 1, 3 for 1, 2, 3
    assert found.true.low[0] == 1
    assert found.true.high[0] == 3


def test_the_order_is_spearmans() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    truth = [rng.normal(rng.normal(), 1, 5) for _ in range(8)]
    imagined = [t + rng.normal(0, 1, 5) for t in truth]
    found = metrics.training_returns(truth, imagined, resamples=100)
    means = [np.mean(part, 1) for part in (truth, imagined)]
    assert found.rank_correlation.value == pytest.approx(stats.spearmanr(*means).statistic)
    assert found.rank_correlation.low <= found.rank_correlation.value
    assert found.rank_correlation.value <= found.rank_correlation.high


def test_a_policy_that_exploits_its_model_is_seen_to() -> None:
    rng = np.random.default_rng(1)
    rising = [rng.normal(level, 0.1, 20) for level in range(5)]
    falling = [rng.normal(-level, 0.1, 20) for level in range(5)]
    honest = metrics.training_returns(rising, rising, resamples=100)
    assert (honest.rank_correlation.low, honest.rank_correlation.value) == (1, 1)
    np.testing.assert_allclose(honest.bias.value, 0)
    exploiting = metrics.training_returns(falling, rising, resamples=100)
    assert exploiting.rank_correlation.high == -1
    assert exploiting.bias.low[-1] > 7


def test_noise_is_not_taken_for_an_order() -> None:
    rng = np.random.default_rng(2)
    noise = [rng.normal(0, 1, 6) for _ in range(3)]
    found = metrics.training_returns(noise, [np.zeros(6), np.ones(6), np.full(6, 2)])
    assert found.rank_correlation.low < 0 < found.rank_correlation.high


def test_one_checkpoint_or_one_episode() -> None:
    one = metrics.training_returns([[1.0, 2.0]], [[1.0, 2.0]], resamples=10)
    assert np.isnan(one.rank_correlation.value)
    lone = metrics.training_returns([[1.0], [2.0]], [[1.0], [3.0]], resamples=10)
    assert lone.rank_correlation.value == pytest.approx(1)
    assert np.isnan(lone.rank_correlation.low)
    assert np.isnan(lone.true.low).all()
