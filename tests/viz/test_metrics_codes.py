"""Metrics of codes and probes, by numbers worked out by hand and by scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import mutual_info_score

from wmtk.viz import metrics
from wmtk.viz.metrics.codes import factor_bins
from wmtk.viz.metrics.probes import fit_logistic, fit_ridge, principal


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# --- distributions ---


def test_entropy_and_divergence_by_hand() -> None:
    assert metrics.entropy([0.5, 0.5]) == pytest.approx(math.log(2))
    assert metrics.entropy([1.0, 0.0]) == 0
    found = metrics.divergence([1.0, 0.0], [0.25, 0.75])
    assert found == pytest.approx(math.log(4))
    np.testing.assert_allclose(metrics.softmax([0.0, math.log(3)]), [0.25, 0.75])
    np.testing.assert_allclose(metrics.bernoulli(math.log(3)), [0.25, 0.75])
    assert np.isfinite(metrics.softmax([1e4, -1e4])).all()


def test_gaussians_by_hand() -> None:
    assert metrics.gaussian_divergence(1, 1, 0, 1) == pytest.approx(0.5)
    expected = 0.5 * (4 - 1) + math.log(0.5)
    assert metrics.gaussian_divergence(0, 2, 0, 1) == pytest.approx(expected)
    assert metrics.gaussian_entropy(1) == pytest.approx(1.4189385)


# --- codes ---


def test_code_usage_by_hand() -> None:
    # Of two variables, one tells two halves of the frames apart, the other is always class 2.
    posterior = np.zeros((10, 2, 4))
    posterior[:5, 0, 0] = posterior[5:, 0, 3] = 1
    posterior[:, 1, 2] = 1
    found = metrics.code_usage(posterior)
    assert found.frames == 10
    np.testing.assert_allclose(found.usage, [[0.5, 0, 0, 0.5], [0, 0, 1, 0]])
    np.testing.assert_allclose(found.perplexity, [2, 1])
    np.testing.assert_allclose(found.information, [math.log(2), 0], atol=1e-12)
    assert found.dead_share == 5 / 8
    assert found.threshold == 0.01 / 4


def test_a_collapsed_posterior_tells_nothing() -> None:
    """Every class is used, and none is dead: only the information shows that this is noise."""
    found = metrics.code_usage(np.full((50, 3, 4), 0.25))
    np.testing.assert_allclose(found.perplexity, 4)
    np.testing.assert_allclose(found.information, 0, atol=1e-9)
    np.testing.assert_allclose(found.entropy, math.log(4))
    assert found.dead_share == 0


def test_mutual_information_is_that_of_scikit_learn(rng: np.random.Generator) -> None:
    codes, factor = rng.integers(0, 4, 300), rng.integers(0, 3, 300)
    factor[:100] = codes[:100] % 3
    posterior = np.eye(4)[codes][:, None]
    expected = mutual_info_score(codes, factor)
    assert metrics.mutual_information(posterior, factor)[0] == pytest.approx(expected)


def test_information_about_a_factor_is_zero_by_chance(rng: np.random.Generator) -> None:
    height = rng.permutation(np.arange(800) / 800)
    telling = np.eye(8)[(height * 8).astype(int)]
    noise = np.eye(8)[rng.integers(0, 8, 800)]
    found = metrics.factor_information(np.stack([telling, noise], 1), height)
    assert found.entropy == pytest.approx(math.log(8), abs=0.01)
    assert found.information[0] + found.baseline[0] == pytest.approx(math.log(8))
    assert abs(found.information[1]) < 0.02
    assert found.baseline[1] > 0.02  # which is what chance seems to tell


def test_factors_become_classes() -> None:
    np.testing.assert_array_equal(factor_bins([3.0, 7.0, 3.0]), [0, 1, 0])
    bins = factor_bins(np.arange(80))
    np.testing.assert_array_equal(np.bincount(bins), [10] * 8)
    mostly = factor_bins([0.0] * 90 + list(range(1, 11)))
    assert len(set(mostly[:90])) == 1
    assert set(mostly) == set(range(mostly.max() + 1))


# --- probes ---


def test_ridge_is_that_of_scikit_learn(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(60, 5)), rng.normal(size=(60, 2))
    weights, intercept = fit_ridge(x, y, 3.0)
    theirs = Ridge(alpha=3.0).fit(x, y)
    np.testing.assert_allclose(weights, theirs.coef_.T, atol=1e-9)
    np.testing.assert_allclose(intercept, theirs.intercept_, atol=1e-9)


def test_logistic_is_that_of_scikit_learn(rng: np.random.Generator) -> None:
    x = rng.normal(size=(200, 4))
    classes = (x @ rng.normal(size=(4, 3)) + rng.normal(size=(200, 3))).argmax(1)
    weights, intercept = fit_logistic(x, np.eye(3)[classes], 2.0)
    theirs = LogisticRegression(C=1 / 2.0, tol=1e-8, max_iter=1000).fit(x, classes)
    ours = metrics.softmax(x @ weights + intercept)
    np.testing.assert_allclose(ours, theirs.predict_proba(x), atol=1e-4)


def test_a_factor_is_read_off_features_that_have_it(rng: np.random.Generator) -> None:
    episode = np.repeat(np.arange(12), 20)
    factor = rng.normal(size=240)
    features = np.stack([factor, *rng.normal(size=(3, 240))], 1)
    found = metrics.probe(features, factor, episode)
    assert found.kind == "ridge"
    assert found.score > 0.99
    blind = metrics.probe(features[:, 1:], factor, episode)
    assert blind.score < 0.1


def test_few_values_are_classified(rng: np.random.Generator) -> None:
    episode = np.repeat(np.arange(12), 20)
    factor = rng.integers(0, 3, 240)
    features = np.eye(3)[factor] + rng.normal(0, 0.1, (240, 3))
    found = metrics.probe(features, factor, episode)
    assert (found.kind, found.score) == ("logistic", 1.0)
    assert found.chance == pytest.approx(np.bincount(factor).max() / 240)


def test_what_identifies_an_episode_does_not_count(rng: np.random.Generator) -> None:
    """A factor that is constant in each episode cannot be read off the episode's number."""
    episode = np.repeat(np.arange(20), 10)
    factor = np.repeat(rng.normal(size=20), 10)
    features = np.eye(20)[episode]
    assert metrics.probe(features, factor, episode).score < 0.1


@pytest.mark.parametrize("rows", [20, 90], ids=["more features", "more rows"])
def test_principal_components_keep_what_varies(rng: np.random.Generator, rows: int) -> None:
    hidden = rng.normal(size=(rows, 2))
    features = hidden @ rng.normal(size=(2, 40))
    found = principal(features, components=5)
    assert found.shape == (rows, 5)
    standard = (features - features.mean(0)) / features.std(0)
    np.testing.assert_allclose(found @ found.T, standard @ standard.T, atol=1e-6)


def test_how_far_two_uses_of_classes_are_apart() -> None:
    first = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5]]
    second = [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.2, 0.3, 0.5]]
    np.testing.assert_allclose(metrics.usage_distance(first, second), [0.25, 1, 0])
