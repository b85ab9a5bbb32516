"""Linear probes: how well a factor is predicted from features, on held-out episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Numbers
from wmtk.viz.metrics.events import optional_module
from wmtk.viz.metrics.numbers import r_squared

FOLDS = 5
FEW = 8  # a factor with at most this many values is classified
COMPONENTS = 256  # principal components that are used of larger features
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
ITERATIONS = 1000


@dataclass(frozen=True)
class Probe:
    """R² of a number or accuracy of a class, on episodes that the probe was not fitted to."""

    kind: str  # "ridge" or "logistic"
    score: float
    chance: float  # what the mean, or the most frequent class, reaches


def probe(features: ArrayLike, factor: ArrayLike, episode: ArrayLike, seed: int = 0) -> Probe:
    """Predict a factor (N,) or (N, Y) from features (N, F), with folds of whole episodes (N,).

    Reduce large features by `principal` first, once for all factors. Each fold is predicted by a
    probe that was fitted to the others; the penalty is chosen on one fold among these. Factors of
    few values are classified, others predicted as numbers.
    """
    # On a busy machine, several threads are up to a hundred times slower than one.
    with optional_module("threadpoolctl").threadpool_limits(1):
        return _cross_validated(features, factor, episode, seed)


def _cross_validated(
    features: ArrayLike, factor: ArrayLike, episode: ArrayLike, seed: int
) -> Probe:
    x, values, groups = np.asarray(features, np.float64), np.asarray(factor), np.asarray(episode)
    distinct, classes = np.unique(values, return_inverse=True)
    classify = values.ndim == 1 and len(distinct) <= FEW
    y = classes if classify else values.reshape(len(x), -1).astype(float)
    count = min(FOLDS, len(np.unique(groups)))
    assert count >= 3, f"a probe needs episodes to fit, to tune and to test on: {count}"
    splitter = optional_module("sklearn.model_selection").GroupKFold(
        count, shuffle=True, random_state=seed
    )
    folds = [test for _, test in splitter.split(x, y, groups)]
    predicted = np.empty_like(y)
    for number, test in enumerate(folds):
        tuning = folds[(number + 1) % count]
        fitting = np.setdiff1d(np.arange(len(x)), np.concatenate([test, tuning]))
        scores = [
            score(y[tuning], fit(x[fitting], y[fitting], penalty, classify).predict(x[tuning]))
            for penalty in PENALTIES
        ]
        best = PENALTIES[int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))]
        both = np.concatenate([fitting, tuning])
        predicted[test] = (
            fit(x[both], y[both], best, classify).predict(x[test]).reshape(predicted[test].shape)
        )
    chance = float(np.bincount(classes).max() / len(x)) if classify else 0.0
    return Probe("logistic" if classify else "ridge", score(y, predicted), chance)


def score(truth: NDArray[Any], prediction: NDArray[Any]) -> float:
    """The accuracy of classes (N,), or R² of numbers (N, Y)."""
    if truth.ndim == 1:
        return float((truth == prediction).mean())
    return r_squared(truth, prediction.reshape(truth.shape))


def fit(x: Numbers, y: NDArray[Any], penalty: float, classify: bool) -> Any:
    """A fitted ridge or logistic regression; the penalty is the weight of the squared weights."""
    if not classify:
        return optional_module("sklearn.linear_model").Ridge(alpha=penalty).fit(x, y)
    if len(np.unique(y)) == 1:  # a logistic regression needs two classes
        return optional_module("sklearn.dummy").DummyClassifier().fit(x, y)
    logistic = optional_module("sklearn.linear_model").LogisticRegression
    return logistic(C=1 / penalty, max_iter=ITERATIONS).fit(x, y)


def principal(features: ArrayLike, components: int = COMPONENTS) -> Numbers:
    """Standardized features (N, …), and of many their strongest principal components: (N, F).

    The smaller of both Gram matrices takes a tenth of the time of a singular value decomposition.
    """
    rows = np.asarray(features, np.float64)
    x = rows.reshape(len(rows), -1)
    scale = x.std(0)
    x = (x - x.mean(0)) / np.where(scale > 1e-9, scale, np.inf)  # constant features become 0
    if x.shape[1] <= components:
        return np.asarray(x)
    if len(x) < x.shape[1]:
        strength, axes = np.linalg.eigh(x @ x.T)
        return np.asarray((axes * np.sqrt(np.maximum(strength, 0)))[:, -components:])
    return np.asarray(x @ np.linalg.eigh(x.T @ x)[1][:, -components:])
