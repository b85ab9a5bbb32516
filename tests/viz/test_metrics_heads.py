"""Metrics of rewards and ends, by numbers worked out by hand, and some by scikit-learn."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import r2_score

from wmtk.errors import MissingDependencyError
from wmtk.viz import metrics
from wmtk.viz.metrics import Bootstrap


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def few(episodes: int) -> Bootstrap:
    return Bootstrap(np.arange(episodes), resamples=20)


# --- events ---


def test_events_by_hand() -> None:
    truth, score = [1, 0, 1, 0, 0], [0.9, 0.8, 0.6, 0.6, 0.1]
    # Of six pairs of an event and another step, 4 are in order and one is a tie.
    assert metrics.roc_auc(truth, score) == pytest.approx(4.5 / 6)
    # Thresholds 0.9 and 0.6 have recall ½ and 1, precision 1 and 2/4.
    assert metrics.average_precision(truth, score) == pytest.approx(0.5 * 1 + 0.5 * 2 / 4)
    squares = 0.1**2 + 0.8**2 + 0.4**2 + 0.6**2 + 0.1**2
    assert metrics.brier(truth, score) == pytest.approx(squares / 5)


@pytest.mark.parametrize("digits", [8, 1], ids=["distinct", "ties"])
def test_without_tolerance_it_is_the_average_precision(
    rng: np.random.Generator, digits: int
) -> None:
    truth = rng.random((20, 20)) < 0.1
    score = np.round(np.clip(rng.normal(0.3, 0.2, truth.shape) + 0.2 * truth, 0, 1), digits)
    expected = metrics.average_precision(truth.ravel(), score.ravel())
    assert metrics.tolerant_average_precision(truth, score, 0) == pytest.approx(expected)


def test_average_precision_by_hand() -> None:
    # Alarms in falling order: right, wrong, right. Precision 1 at recall ½, then ⅔ at recall 1.
    found = metrics.average_precision([True, False, True], [0.9, 0.5, 0.1])
    assert found == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_without_events_nothing_can_be_said() -> None:
    assert np.isnan(metrics.average_precision([False, False], [0.1, 0.2]))
    assert np.isnan(metrics.roc_auc([True, True], [0.1, 0.2]))
    assert np.isnan(metrics.roc_auc([False, False], [0.1, 0.2]))
    assert metrics.brier([False, False], [0.1, 0.2]) == pytest.approx(0.025)
    assert metrics.brier([True, True], [0.1, 0.2]) == pytest.approx((0.81 + 0.64) / 2)


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(MissingDependencyError, match=r"wmtk\[viz\]"):
        metrics.roc_auc([True, False], [0.1, 0.2])


def test_an_alarm_that_is_early_counts_with_tolerance() -> None:
    truth = [[0, 0, 1, 0, 0, 0]]
    score = [[0.0, 0.9, 0.1, 0.0, 0.0, 0.0]]
    strict = metrics.tolerant_average_precision(truth, score, 0)
    assert strict == pytest.approx(0.5)  # the second alarm is right
    assert metrics.tolerant_average_precision(truth, score, 1) == pytest.approx(1)


def test_windows_do_not_leak_into_each_other() -> None:
    truth = [[0, 0, 1], [0, 0, 0]]
    score = [[0.0, 0.0, 0.0], [0.9, 0.0, 0.0]]  # an alarm at the start of the next window
    assert metrics.tolerant_average_precision(truth, score, 1) < 0.7
    score = [[0.0, 0.9, 0.0], [0.0, 0.0, 0.0]]
    assert metrics.tolerant_average_precision(truth, score, 1) == pytest.approx(1)


def test_masked_steps_do_not_exist() -> None:
    truth = [[0, 1, 0, 1]]
    score = [[0.1, 0.9, 0.2, 0.99]]
    found = metrics.tolerant_average_precision(truth, score, 0, [[1, 1, 1, 0]])
    assert found == pytest.approx(1)
    found = metrics.tolerant_average_precision([[0, 1, 0]], [[0.1, 0.2, 0.99]], 0, [[1, 1, 0]])
    assert found == pytest.approx(1)


def test_calibration_by_hand() -> None:
    # Ten predictions of 0.25, four of which came true; two of 0.95, both true.
    truth = [1] * 4 + [0] * 6 + [1, 1]
    probability = [0.25] * 10 + [0.95] * 2
    found = metrics.reliability(truth, probability)
    assert found.count.tolist() == [0, 0, 10, 0, 0, 0, 0, 0, 0, 2]
    assert found.observed[2] == pytest.approx(0.4)
    assert found.error == pytest.approx((0.15 * 10 + 0.05 * 2) / 12)


def test_calibration_as_scikit_learn_has_it(rng: np.random.Generator) -> None:
    probability = rng.random(500) ** 2
    truth = rng.random(500) < probability
    found = metrics.reliability(truth, probability)
    observed, predicted = calibration_curve(truth, probability, n_bins=10)
    np.testing.assert_allclose(found.observed[found.count > 0], observed)
    np.testing.assert_allclose(found.predicted[found.count > 0], predicted)


def test_a_probability_of_1_is_in_the_last_bin() -> None:
    assert metrics.reliability([True], [1.0]).count[-1] == 1


# --- numbers ---


def test_numbers_as_others_score_them(rng: np.random.Generator) -> None:
    stats = pytest.importorskip("scipy.stats")
    truth = np.round(rng.normal(size=200), 1)
    prediction = np.round(truth + rng.normal(size=200), 1)
    assert metrics.r_squared(truth, prediction) == pytest.approx(r2_score(truth, prediction))
    pearson = stats.pearsonr(truth, prediction).statistic
    assert metrics.correlation(truth, prediction) == pytest.approx(pearson)
    spearman = stats.spearmanr(truth, prediction).statistic
    assert metrics.rank_correlation(truth, prediction) == pytest.approx(spearman)
    assert metrics.mean_absolute_error([1, 2], [2, 4]) == 1.5


def test_what_does_not_vary_has_no_correlation() -> None:
    assert np.isnan(metrics.correlation([1, 1], [1, 2]))
    assert np.isnan(metrics.r_squared([1, 1], [1, 2]))


# --- rewards ---


def sparse_rewards() -> np.ndarray:
    truth = np.zeros((4, 20))
    truth[0, 5] = truth[2, 7] = 1
    truth[1, 5] = truth[3, 9] = -1
    return truth


def test_sparse_rewards_are_events_of_two_signs() -> None:
    truth = sparse_rewards()
    mask = np.ones(truth.shape, bool)
    found = metrics.reward_quality(truth, truth * 0.5, mask, few(4))
    assert found.sparse
    assert found.share == pytest.approx(4 / 80)
    assert found.positive is not None
    assert found.negative is not None
    assert (found.positive.count, found.negative.count) == (2, 2)
    assert found.positive.base_rate == pytest.approx(2 / 80)
    assert found.positive.average_precision.value == pytest.approx(1)
    assert found.correlation.value == pytest.approx(1)
    assert found.r_squared.value == pytest.approx(0.75)
    assert found.return_bias.value == pytest.approx(0)
    assert found.amount == pytest.approx(1)  # each of 4 windows has one reward of size 1


def test_the_size_of_what_is_predicted_near_rewards() -> None:
    truth = sparse_rewards()
    mask = np.ones(truth.shape, bool)
    prediction = 0.5 * truth + 0.25 * np.roll(truth, 1, 1)  # half of it, a quarter a step late
    prediction[0, 15] = 9  # far from any reward, which is another fault
    found = metrics.reward_quality(truth, prediction, mask, few(4), tolerance=1)
    assert found.positive is not None
    assert found.negative is not None
    assert found.positive.size.value == found.negative.size.value == pytest.approx(0.75)
    assert found.return_bias.value == pytest.approx(9 / 4)
    exact = metrics.reward_quality(truth, prediction, mask, few(4), tolerance=0)
    assert exact.positive is not None
    assert exact.positive.size.value == pytest.approx(0.5)


def test_a_reward_head_that_lies_is_seen_to() -> None:
    truth = sparse_rewards()
    mask = np.ones(truth.shape, bool)
    found = metrics.reward_quality(truth, -truth, mask, few(4))
    assert found.positive is not None
    assert found.positive.average_precision.value < 0.05
    assert found.correlation.value == pytest.approx(-1)


def test_an_early_reward_is_forgiven_within_the_tolerance() -> None:
    truth = sparse_rewards()
    mask = np.ones(truth.shape, bool)
    early = np.roll(truth, -1, 1)
    found = metrics.reward_quality(truth, early, mask, few(4), tolerance=1)
    assert found.positive is not None
    assert found.positive.average_precision.value < 0.1
    assert found.positive.with_tolerance.value == pytest.approx(1)


def test_dense_rewards_are_numbers(rng: np.random.Generator) -> None:
    truth = rng.normal(size=(5, 10))
    mask = np.ones(truth.shape, bool)
    mask[:, 8:] = False
    prediction = truth + 0.5
    prediction[:, 8:] = 1e6  # does not exist
    found = metrics.reward_quality(truth, prediction, mask, few(5))
    assert not found.sparse
    assert found.positive is None
    np.testing.assert_allclose(found.error.value[:8], 0.5)
    assert np.isnan(found.error.value[8:]).all()
    np.testing.assert_allclose(found.correlation_at[:8], 1)
    assert found.return_bias.value == pytest.approx(8 * 0.5)


def test_returns_imagined_and_real() -> None:
    found = metrics.return_quality([1.0, 2.0, 4.0], [2.0, 4.0, 9.0], few(3))
    assert found.true.value == pytest.approx(7 / 3)
    assert found.bias.value == pytest.approx(8 / 3)
    assert found.rank_correlation.value == pytest.approx(1)


def test_a_discounted_return_counts_the_first_reward_in_full() -> None:
    found = metrics.discounted_return([[1.0, 2.0, 4.0]], [[0.5, 0.25, 0.0]])
    assert found == pytest.approx(1 + 2 * 0.5 + 4 * 0.5 * 0.25)


# --- ends ---


def test_the_probability_of_an_end() -> None:
    found = metrics.terminal_probability([0.99, 0.0, 0.495, 1.0], 0.99)
    np.testing.assert_allclose(found, [0, 1, 0.5, 0])


def test_terminal_and_truncated_apart() -> None:
    terminal = np.zeros((4, 5), bool)
    terminal[:2, 4] = True
    truncated = np.zeros((4, 5), bool)
    truncated[2:, 4] = True
    probability = np.where(terminal, 0.8, 0.1)
    probability[2:, 4] = 0.3
    mask = np.ones((4, 5), bool)
    found = metrics.ending_quality(terminal, truncated, probability, mask, few(4))
    assert (found.steps, found.terminal, found.truncated) == (20, 2, 2)
    assert found.base_rate == 0.1
    assert found.expected_rate == pytest.approx((2 * 0.8 + 2 * 0.3 + 16 * 0.1) / 20)
    assert found.average_precision.value == pytest.approx(1)
    assert found.auc.value == pytest.approx(1)
    assert found.at_truncated == pytest.approx(0.3)
    assert found.brier.value == pytest.approx((2 * 0.04 + 2 * 0.09 + 16 * 0.01) / 20)
    assert found.brier_of_base_rate == pytest.approx(0.09)


def test_without_an_end_there_is_only_the_brier_score() -> None:
    none = np.zeros((2, 3), bool)
    probability = np.full((2, 3), 0.1)
    found = metrics.ending_quality(none, none, probability, ~none, few(2))
    assert np.isnan(found.average_precision.value)
    assert found.brier.value == pytest.approx(0.01)
    assert np.isnan(found.at_truncated)
