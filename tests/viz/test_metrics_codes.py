"""Metrics of codes and probes, by numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from wmtk.viz import metrics
from wmtk.viz.metrics.codes import factor_bins
from wmtk.viz.metrics.probes import fit, principal


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


def test_mutual_information_by_hand() -> None:
    # The code is the factor in three of four frames: the joint shares are 3/8 and 1/8.
    codes, factor = [0, 0, 0, 0, 1, 1, 1, 1], np.array([0, 0, 0, 1, 1, 1, 1, 0])
    posterior = np.eye(2)[codes][:, None]
    expected = 2 * (3 / 8 * math.log(3 / 8 / 0.25) + 1 / 8 * math.log(1 / 8 / 0.25))
    assert metrics.mutual_information(posterior, factor)[0] == pytest.approx(expected)
    # A posterior of ¾ and ¼ in every frame gives the same shares.
    factor = np.array([0, 1])
    posterior = np.array([[[0.75, 0.25]], [[0.25, 0.75]]])
    assert metrics.mutual_information(posterior, factor)[0] == pytest.approx(expected)
    independent = np.full((2, 1, 2), 0.5)
    assert metrics.mutual_information(independent, factor)[0] == pytest.approx(0, abs=1e-12)


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


def test_ridge_by_hand() -> None:
    # Centered, x is ∓1 and y ∓2: the weight is Σxy / (Σx² + penalty) = 4 / (2 + 6).
    x, y = np.array([[0.0], [2.0]]), np.array([[1.0], [5.0]])
    predicted = fit(x, y, 6.0, classify=False).predict(np.array([[1.0], [5.0]]))
    np.testing.assert_allclose(predicted.ravel(), [3, 3 + 4 * 0.5])


def test_logistic_by_hand() -> None:
    # Of two symmetric classes, the weight w minimizes penalty/2·w² + 2·log(1 + exp(−w)).
    x, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    weight = fit(x, y, 0.5, classify=True).coef_.item()
    assert weight == pytest.approx(2 / (0.5 * (1 + math.exp(weight))), rel=1e-3)


def test_a_factor_that_is_constant_in_the_fitted_folds_is_predicted_as_that(
    rng: np.random.Generator,
) -> None:
    episode = np.repeat(np.arange(6), 10)
    factor = (episode == 0).astype(int)
    found = metrics.probe(rng.normal(size=(60, 2)), factor, episode)
    assert found.chance == pytest.approx(50 / 60)
    assert found.score <= found.chance


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
