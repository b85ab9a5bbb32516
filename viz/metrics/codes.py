"""Use of discrete latent codes: V variables of K classes, over N frames.

`posterior` (N, V, K) are the probabilities of each variable given the frame.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Numbers
from wmtk.viz.metrics.divergences import entropy

DEAD = 0.01  # a class is dead if it is used less than this share of even use
FACTOR_BINS = 8
PERMUTATIONS = 10


@dataclass(frozen=True)
class CodeUsage:
    frames: int
    usage: Numbers  # (V, K), the share of frames of each class
    perplexity: Numbers  # (V,), the number of classes in effective use: 1 … K
    dead: NDArray[np.bool_]  # (V, K)
    threshold: float  # of usage, below which a class is dead
    information: Numbers  # (V,), mutual information of a variable and the frame, in nats
    entropy: Numbers  # (V,), mean entropy of the posterior, in nats

    @property
    def dead_share(self) -> float:
        return float(self.dead.mean())


def code_usage(posterior: ArrayLike, dead: float = DEAD) -> CodeUsage:
    """Marginals, perplexity exp(H(marginal)), dead classes, I(z; x) = H(marginal) − mean H(q)."""
    q = np.asarray(posterior, np.float64)
    assert q.ndim == 3, q.shape
    N, _, K = q.shape
    usage = q.mean(0)
    marginal, conditional = entropy(usage), entropy(q).mean(0)
    threshold = dead / K
    # Rounding must not make information negative.
    information = np.maximum(marginal - conditional, 0)
    dead_classes = usage < threshold
    return CodeUsage(N, usage, np.exp(marginal), dead_classes, threshold, information, conditional)


def usage_distance(first: ArrayLike, second: ArrayLike) -> Numbers:
    """The total variation distance of two uses of classes (V, K), ½·Σ |difference|: (V,), 0 … 1."""
    gap = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    return np.asarray(np.abs(gap).sum(-1) / 2)


def factor_bins(factor: ArrayLike, bins: int = FACTOR_BINS) -> NDArray[np.int64]:
    """The values (N,) of a factor as classes 0 … B−1: distinct values, or quantile bins if many.

    Equal values are in the same class.
    """
    values = np.asarray(factor)
    distinct, inverse = np.unique(values, return_inverse=True)
    if len(distinct) <= bins:
        return np.asarray(inverse, np.int64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    _, index = np.unique(np.searchsorted(edges, values, "right"), return_inverse=True)
    return np.asarray(index, np.int64)


def mutual_information(posterior: ArrayLike, classes: NDArray[np.int64]) -> Numbers:
    """I(z; factor) in nats for each variable (V,), the factor given as classes (N,).

    scikit-learn's `mutual_info_score` counts in whole numbers; posteriors are probabilities.
    """
    q = np.asarray(posterior, np.float64)
    N, V, K = q.shape
    members = np.eye(int(classes.max()) + 1)[classes]  # (N, B)
    joint = (q.reshape(N, V * K).T @ members / N).reshape(V, K, -1)
    both = entropy(joint.reshape(V, -1))
    return np.asarray(entropy(joint.sum(2)) + entropy(joint.sum(1)) - both)


@dataclass(frozen=True)
class FactorInformation:
    """Mutual information of codes and a factor, in nats, corrected for chance."""

    information: Numbers  # (V,), I(z; factor) − baseline
    baseline: Numbers  # (V,), the mean over permuted factors
    entropy: float  # of the factor: the upper bound of the information


def factor_information(
    posterior: ArrayLike,
    factor: ArrayLike,
    *,
    bins: int = FACTOR_BINS,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> FactorInformation:
    """The mutual information of each variable with a factor (N,), minus a permutation baseline."""
    classes = factor_bins(factor, bins)
    rng = np.random.default_rng(seed)
    shuffled = [
        mutual_information(posterior, rng.permutation(classes)) for _ in range(permutations)
    ]
    baseline = np.mean(shuffled, 0)
    share = np.bincount(classes) / len(classes)
    information = mutual_information(posterior, classes) - baseline
    return FactorInformation(information, baseline, float(entropy(share)))
