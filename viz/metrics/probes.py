"""Linear probes: how much of a factor can be read off features, on episodes not fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Numbers, Rows
from wmtk.viz.metrics.divergences import softmax
from wmtk.viz.metrics.numbers import r_squared

FOLDS = 5
FEW = 8  # a factor with at most this many values is classified
COMPONENTS = 256  # principal components that are used of larger features
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
ITERATIONS = 300

Weights = tuple[Numbers, Numbers]  # (F, Y) and the intercept (Y,)


def fit_ridge(x: Numbers, y: Numbers, penalty: float) -> Weights:
    """Least squares from x (N, F) to y (N, Y), plus penalty · weights²."""
    center, middle = x.mean(0), y.mean(0)
    inner = x - center
    gram = inner.T @ inner + penalty * np.eye(x.shape[1])
    weights = np.linalg.solve(gram, inner.T @ (y - middle))
    return weights, middle - center @ weights


def fit_logistic(x: Numbers, y: Numbers, penalty: float, iterations: int = ITERATIONS) -> Weights:
    """Multinomial logistic regression of one-hot y (N, Y), penalized by penalty/2 · weights².

    Newton steps with Böhning's upper bound of the curvature, which needs one inverse for all of
    them and never overshoots; momentum makes them fewer.
    """
    N, F = x.shape
    inner = np.concatenate([x, np.ones((N, 1))], 1)
    shrink = np.full((F + 1, 1), penalty)
    shrink[-1] = 1e-9  # the intercept is free
    bound = np.linalg.inv(0.5 * inner.T @ inner + np.diag(shrink[:, 0]))
    weights = ahead = np.zeros((F + 1, y.shape[1]))
    for n in range(iterations):
        slope = inner.T @ (y - softmax(inner @ ahead)) - shrink * ahead
        before, weights = weights, ahead + bound @ slope
        ahead = weights + n / (n + 3) * (weights - before)
        if np.abs(weights - before).max() < 1e-5:
            break
    return weights[:-1], weights[-1]


@dataclass(frozen=True)
class Probe:
    """How well a factor is read off: R² of a number, accuracy of a class, on other episodes."""

    kind: str  # "ridge" or "logistic"
    score: float
    chance: float  # what the mean, or the most frequent class, reaches


def probe(features: ArrayLike, factor: ArrayLike, episode: ArrayLike, seed: int = 0) -> Probe:
    """Read a factor (N,) or (N, Y) off features (N, F), with folds of whole episodes (N,).

    Large features are best reduced by `principal` before, once for all factors. Each fold is
    predicted by a probe that was fitted to the others; the penalty is chosen on a fold among
    these. Factors of few values are classified, others predicted as numbers.
    """
    x = np.asarray(features, np.float64)
    values = np.asarray(factor)
    distinct, classes = np.unique(values, return_inverse=True)
    classify = values.ndim == 1 and len(distinct) <= FEW
    y = np.eye(len(distinct))[classes] if classify else values.reshape(len(x), -1).astype(float)
    fit = fit_logistic if classify else fit_ridge
    score = _accuracy if classify else r_squared
    folds = _folds(np.asarray(episode), seed)
    predicted = np.empty_like(y)
    for number, held in enumerate(folds):
        tuning = folds[(number + 1) % len(folds)]
        fitting = np.setdiff1d(np.arange(len(x)), np.concatenate([held, tuning]))
        tried = [
            score(y[tuning], _apply(fit(x[fitting], y[fitting], penalty), x[tuning]))
            for penalty in PENALTIES
        ]
        best = PENALTIES[int(np.argmax(np.nan_to_num(tried, nan=-np.inf)))]
        both = np.concatenate([fitting, tuning])
        predicted[held] = _apply(fit(x[both], y[both], best), x[held])
    chance = float(y.mean(0).max()) if classify else 0.0
    return Probe("logistic" if classify else "ridge", score(y, predicted), chance)


def _folds(episode: NDArray[np.int64], seed: int) -> list[Rows]:
    """Rows by episodes, in folds of about equally many of these."""
    labels, of = np.unique(episode, return_inverse=True)
    assert len(labels) >= 3, f"a probe needs episodes to fit, to tune and to test on: {labels}"
    fold = np.empty(len(labels), np.int64)
    count = min(FOLDS, len(labels))
    fold[np.random.default_rng(seed).permutation(len(labels))] = np.arange(len(labels)) % count
    return [np.flatnonzero(fold[of] == number) for number in range(count)]


def principal(features: ArrayLike, components: int = COMPONENTS) -> Numbers:
    """Features (N, …) standardized, then the strongest of their principal components: (N, F)."""
    rows = np.asarray(features, np.float64)
    x = rows.reshape(len(rows), -1)
    scale = x.std(0)
    x = (x - x.mean(0)) / np.where(scale > 1e-9, scale, np.inf)  # what never varies is no help
    if x.shape[1] <= components:
        return np.asarray(x)
    if len(x) < x.shape[1]:
        strength, axes = np.linalg.eigh(x @ x.T)
        return np.asarray((axes * np.sqrt(np.maximum(strength, 0)))[:, -components:])
    return np.asarray(x @ np.linalg.eigh(x.T @ x)[1][:, -components:])


def _apply(weights: Weights, x: Numbers) -> Numbers:
    slope, intercept = weights
    return np.asarray(x @ slope + intercept)


def _accuracy(y: Numbers, predicted: Numbers) -> float:
    return float((y.argmax(1) == predicted.argmax(1)).mean())
