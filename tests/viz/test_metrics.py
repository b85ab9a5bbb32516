"""Metrics of pictures and horizons, by numbers worked out by hand and by scikit-image."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from wmtk.viz import metrics
from wmtk.viz.evaluation.interval_text import format_interval, format_margin
from wmtk.viz.metrics import Bootstrap, Estimate, Usable
from wmtk.viz.metrics.frames import PSNR_MOST


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# --- pictures ---


def test_psnr_of_known_errors() -> None:
    truth = np.zeros((2, 4, 4, 1))
    prediction = truth.copy()
    prediction[0] += 0.1  # squared: 0.01
    prediction[1, 0, 0] = 0.4  # 0.16 / 16 = 0.01
    mse = metrics.frame_mse(prediction, truth)
    np.testing.assert_allclose(mse, [0.01, 0.01])
    np.testing.assert_allclose(metrics.psnr(mse), [20, 20])


def test_bytes_and_numbers_from_0_to_1_are_the_same_pictures(rng: np.random.Generator) -> None:
    a, b = rng.integers(0, 256, (2, 3, 16, 16, 3), dtype=np.uint8)
    np.testing.assert_allclose(metrics.frame_mse(a, b), metrics.frame_mse(a / 255, b / 255))


def test_predictions_are_clamped() -> None:
    white = np.ones((4, 4, 1))
    assert metrics.frame_mse(white * 7, white) == 0
    assert metrics.frame_mse(white * -7, white) == 1


def test_equal_pictures_have_a_finite_psnr() -> None:
    assert metrics.psnr(np.array(0.0)) == PSNR_MOST


@pytest.mark.parametrize("channels", [1, 3])
def test_psnr_and_ssim_are_those_of_scikit_image(rng: np.random.Generator, channels: int) -> None:
    truth = rng.random((3, 24, 17, channels))
    truth[1] = truth[1].cumsum(0) / 24  # smooth
    prediction = np.clip(truth + rng.normal(0, 0.1, truth.shape), 0, 1)
    found = metrics.ssim(prediction, truth)
    for n in range(3):
        theirs = structural_similarity(
            truth[n],
            prediction[n],
            data_range=1.0,
            channel_axis=-1,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert found[n] == pytest.approx(theirs, abs=1e-9)
        ratio = peak_signal_noise_ratio(truth[n], prediction[n], data_range=1.0)
        mse = metrics.frame_mse(prediction[n], truth[n])
        assert metrics.psnr(mse) == pytest.approx(ratio)


def test_ssim_does_not_depend_on_how_frames_are_stacked(rng: np.random.Generator) -> None:
    a, b = rng.random((2, 300, 12, 12, 1))
    stacked = metrics.ssim(a.reshape(3, 100, 12, 12, 1), b.reshape(3, 100, 12, 12, 1))
    assert stacked.shape == (3, 100)
    assert stacked[2, 99] == pytest.approx(metrics.ssim(a[299], b[299]).item())
    assert metrics.ssim(a[0], a[0]) == pytest.approx(1)


def test_only_moving_pixels_count() -> None:
    last = np.zeros((2, 2, 1))
    truth = np.array([[[1.0], [0.0]], [[0.0], [0.0]]])  # one pixel lit up
    mask = metrics.moving(truth, last)
    np.testing.assert_array_equal(mask, [[True, False], [False, False]])
    blind = np.full((2, 2, 1), 0.5)
    assert metrics.masked_error(blind, truth, mask) == 0.25
    assert metrics.masked_error(last, truth, mask) == 1
    assert not metrics.moving(truth * 0.1, last, threshold=0.2).any()


# --- intervals ---


def test_a_mean_and_its_interval() -> None:
    found = Bootstrap([0, 1]).mean(np.array([[0.0], [1.0]]))
    assert found.value == 0.5
    assert (found.low, found.high) == (0, 1)  # either episode may be drawn twice


def test_a_ratio_of_sums_is_no_mean_of_ratios() -> None:
    found = Bootstrap([0, 1]).ratio([1.0, 3.0], [1.0, 1.0])
    assert found.value == 2
    found = Bootstrap([0, 1]).ratio([1.0, 3.0], [1.0, 9.0])
    assert found.value == pytest.approx(0.4)


def test_episodes_are_resampled_and_not_frames(rng: np.random.Generator) -> None:
    level = np.repeat(rng.normal(size=8), 50)  # 50 equal rows in each of 8 episodes
    by_episode = Bootstrap(np.repeat(np.arange(8), 50)).mean(level)
    by_frame = Bootstrap(np.arange(400)).mean(level)
    wide, narrow = (x.high - x.low for x in (by_episode, by_frame))
    assert wide > 4 * narrow  # √50 is 7


def test_a_statistic_agrees_with_the_mean(rng: np.random.Generator) -> None:
    values, episode = rng.normal(size=30), np.repeat(np.arange(10), 3)
    bootstrap = Bootstrap(episode, seed=5, resamples=100)
    one = bootstrap.mean(values)
    other = bootstrap.statistic(lambda rows: float(values[rows].mean()))
    for field in ("value", "low", "high"):
        assert getattr(one, field) == pytest.approx(getattr(other, field))


def test_one_episode_has_no_interval() -> None:
    found = Bootstrap([7, 7, 7]).mean([1.0, 2.0, 3.0])
    assert found.value == 2
    assert np.isnan(found.low)
    assert np.isnan(found.high)
    assert str(found) == "2"


def test_what_has_no_weight_does_not_count() -> None:
    values = np.array([[1.0, np.nan], [3.0, np.inf]])
    found = Bootstrap([0, 1]).mean(values, np.array([[1, 0], [1, 0]]))
    np.testing.assert_array_equal(found.value, [2, np.nan])
    assert np.isnan(found.low[1])


def test_intervals_are_repeatable() -> None:
    values = np.arange(10.0)
    first, second = (Bootstrap(np.arange(10), seed=3).mean(values) for _ in range(2))
    assert first == second
    assert first != Bootstrap(np.arange(10), seed=4).mean(values)


# --- skill ---


def test_skill_against_a_baseline() -> None:
    error = np.array([[1.0, 4.0, 9.0], [1.0, 4.0, 9.0]])
    baseline = np.array([[4.0, 4.0, 3.0], [4.0, 4.0, 3.0]])
    found = metrics.skill(error, baseline, Bootstrap([0, 1]))
    np.testing.assert_allclose(found.value, [0.75, 0, -2])
    np.testing.assert_allclose(found.low, found.value)  # both episodes are alike
    assert (found.low <= found.high).all()


def test_without_an_error_to_avoid_there_is_no_skill() -> None:
    assert np.isnan(metrics.skill([[1.0]], [[0.0]], Bootstrap([0])).value)


@pytest.mark.parametrize(
    ("low", "expected"),
    [
        ([0.5, 0.4, 0.1, -0.1, 0.2], Usable(1, 3)),
        ([-0.5, 0.4, 0.1, -0.1, 0.2], Usable(2, 3)),
        ([0.5, np.nan, 0.1], Usable(1, 3)),
        ([0.5, 0.1, np.nan], Usable(1, 2)),
        ([-1.0, 0.0, -0.1], Usable(0, 0)),
        ([0.1, 0.2], Usable(1, 2)),
    ],
    ids=["until it fails", "late", "gap", "gap at the end", "never", "always"],
)
def test_usable_horizon(low: list[float], expected: Usable) -> None:
    bounds = np.array(low)
    assert metrics.usable_horizon(Estimate(bounds + 0.1, bounds, bounds + 0.2)) == expected


def test_without_intervals_the_value_decides() -> None:
    nothing = np.full(3, np.nan)
    found = metrics.usable_horizon(Estimate(np.array([0.3, 0.2, -0.1]), nothing, nothing))
    assert found == Usable(1, 2)


# --- several futures ---


def test_the_best_future_is_best_on_the_whole() -> None:
    scores = np.array([[[10.0, 10.0, 0.0], [12.0, 7.0, 99.0]]])  # one window, two futures
    best = metrics.best_future(scores, np.array([[True, True, False]]))
    np.testing.assert_array_equal(best, [[10, 10, 0]])


def test_spread_is_the_unbiased_variance() -> None:
    np.testing.assert_allclose(metrics.spread(np.array([[1.0], [3.0]])), [2])
    assert np.isnan(metrics.spread(np.array([[1.0]]))).all()


def test_a_truth_like_one_more_future_has_a_ratio_of_1(rng: np.random.Generator) -> None:
    futures = rng.normal(size=(4000, 5, 1))
    truth = rng.normal(size=(4000, 1))
    variance = np.stack([metrics.spread(window) for window in futures])
    error = (futures.mean(1) - truth) ** 2
    bootstrap = Bootstrap(np.arange(4000), resamples=100)
    calibrated = metrics.spread_skill(variance, error, 5, bootstrap)
    assert calibrated.value == pytest.approx(1, abs=0.05)
    too_sure = metrics.spread_skill(variance / 4, error, 5, bootstrap)
    assert too_sure.value == pytest.approx(0.5, abs=0.03)


def test_the_fair_error_is_that_of_infinitely_many_futures(rng: np.random.Generator) -> None:
    futures = rng.normal(size=(3, 4000))  # the best guess is 0
    error = futures.mean(0) ** 2
    assert error.mean() == pytest.approx(1 / 3, abs=0.03)
    fair = metrics.fair_error(error, metrics.spread(futures), 3)
    assert fair.mean() == pytest.approx(0, abs=0.03)
    assert metrics.fair_error(error, np.full(4000, np.nan), 1) is error


@pytest.mark.parametrize("windows", [2, 3, 10])
def test_other_windows_are_never_the_same_ones(rng: np.random.Generator, windows: int) -> None:
    found = metrics.other_windows(windows, rng)
    assert sorted(found) == list(range(windows))
    assert (found != np.arange(windows)).all()


def test_sensitivity_is_a_mean_difference() -> None:
    found = metrics.sensitivity(
        np.array([[30.0, 20.0], [32.0, 0.0]]),
        np.array([[20.0, 19.0], [24.0, 50.0]]),
        np.array([[1, 1], [1, 0]]),
        Bootstrap([0, 1]),
    )
    np.testing.assert_allclose(found.value, [9, 1])


def test_numbers_with_their_intervals_for_readers() -> None:
    found = metrics.Estimate(*(np.asarray(x) for x in (-0.001, -0.251, 0.249)))
    assert format_interval(found) == "0.00 (-0.25 to 0.25)"
    assert format_margin(found) == "0.00 ±.25"
    nothing = np.asarray(np.nan)
    assert format_margin(metrics.Estimate(np.asarray(1.25), nothing, nothing), 1) == "1.2"
    assert format_margin(metrics.Estimate(nothing, nothing, nothing)) == format_interval(
        metrics.Estimate(nothing, nothing, nothing)
    )
    exact = metrics.Estimate(*[np.asarray(2.0)] * 3)
    assert format_margin(exact) == "2.00 ±0.00"
