"""Bootstrap intervals of a mean."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from wmtk import stats
from wmtk.stats import blocks, bootstrap_interval, percentile_interval


@pytest.mark.parametrize("count", [2, 5, 30])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_it_is_that_of_scipy(count, confidence):
    scipy_stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(7).gamma(2, 100, count)
    theirs = scipy_stats.bootstrap(
        (values,),
        np.mean,
        confidence_level=confidence,
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    ours = bootstrap_interval(values, confidence=confidence, resamples=2000, seed=3)
    assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-12)


def test_it_is_that_of_all_resamples():
    """Of three values there are 27 resamples, each as likely as the others."""
    values = [0.0, 1.0, 5.0]
    means = sorted(np.mean(drawn) for drawn in itertools.product(values, repeat=3))
    # 80% lie between the third of them (of 27, 2.7 are below) and the third from above.
    expected = means[2], means[-3]
    found = bootstrap_interval(values, confidence=0.8, resamples=20_000)
    assert found == pytest.approx(expected)


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(0).normal(size=20)
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval(values) != bootstrap_interval(values, seed=1)


def test_it_holds_the_true_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    found = [bootstrap_interval(rng.normal(3, 1, 40), resamples=400) for _ in range(400)]
    hits = np.mean([low <= 3 <= high for low, high in found])
    assert 0.90 <= hits <= 0.97


def test_one_value_has_none_and_equal_ones_a_point():
    assert bootstrap_interval([4.0]) is None
    assert bootstrap_interval([4.0, 4.0, 4.0]) == (4.0, 4.0)


def test_it_does_not_depend_on_how_much_is_held_in_memory(monkeypatch):
    values = np.random.default_rng(0).normal(size=9)
    whole = bootstrap_interval(values, resamples=1000)
    monkeypatch.setattr(stats, "BLOCK", 63)
    assert bootstrap_interval(values, resamples=1000) == whole


def test_blocks(monkeypatch):
    monkeypatch.setattr(stats, "BLOCK", 100)
    assert list(blocks(25, 10)) == [10, 10, 5]
    assert list(blocks(2, 1000)) == [1, 1]


def test_percentiles():
    low, high = percentile_interval(np.arange(101.0), 0.9)
    assert (low, high) == pytest.approx((5, 95))


@pytest.mark.parametrize(
    "values", [[[1.0, 2.0]], [1.0, np.nan], [1.0, np.inf]], ids=["table", "nan", "infinite"]
)
def test_wrong_arrays_are_refused(values):
    with pytest.raises(AssertionError):
        bootstrap_interval(values)
