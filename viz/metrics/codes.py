"""How a model uses its discrete codes: V variables of K classes, over N frames.

`posterior` (N, V, K) are the probabilities of each variable after seeing a frame.
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
    usage: Numbers  # (V, K), how often each class is used
    perplexity: Numbers  # (V,), the number of classes that are as good as used: 1 … K
    dead: NDArray[np.bool_]  # (V, K)
    threshold: float  # of usage, below which a class is dead
    information: Numbers  # (V,), nats that a variable tells about the frame
    entropy: Numbers  # (V,), mean entropy of a variable after seeing the frame

    @property
    def dead_share(self) -> float:
        return float(self.dead.mean())


def code_usage(posterior: ArrayLike, dead: float = DEAD) -> CodeUsage:
    """Marginals, perplexity exp(H(marginal)), dead classes, I(z; x) = H(marginal) − mean H(q)."""
    q = np.asarray(posterior, np.float64)
    assert q.ndim == 3, q.shape
    N, _, K = q.shape
    usage = q.mean(0)
    spread, left = entropy(usage), entropy(q).mean(0)
    threshold = dead / K
    # Rounding must not make information negative.
    told = np.maximum(spread - left, 0)
    return CodeUsage(N, usage, np.exp(spread), usage < threshold, threshold, told, left)


def usage_distance(first: ArrayLike, second: ArrayLike) -> Numbers:
    """How much of the use of classes (V, K) is elsewhere: half of Σ |difference|, 0 … 1, (V,).

    Of posterior and prior: 0 if what is expected is, on the whole, what then is seen.
    """
    gap = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    return np.asarray(np.abs(gap).sum(-1) / 2)


def factor_bins(factor: ArrayLike, bins: int = FACTOR_BINS) -> NDArray[np.int64]:
    """A factor's values (N,) as classes 0 … B−1: as they are if few, or else equally many in each.

    Values that are equal never stand in different classes.
    """
    values = np.asarray(factor)
    distinct, inverse = np.unique(values, return_inverse=True)
    if len(distinct) <= bins:
        return np.asarray(inverse, np.int64)
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    _, index = np.unique(np.searchsorted(edges, values, "right"), return_inverse=True)
    return np.asarray(index, np.int64)


def mutual_information(posterior: ArrayLike, classes: NDArray[np.int64]) -> Numbers:
    """I(z; factor) in nats for each variable (V,), the factor given as classes (N,)."""
    q = np.asarray(posterior, np.float64)
    N, V, K = q.shape
    which = np.eye(int(classes.max()) + 1)[classes]  # (N, B)
    joint = (q.reshape(N, V * K).T @ which / N).reshape(V, K, -1)
    both = entropy(joint.reshape(V, -1))
    return np.asarray(entropy(joint.sum(2)) + entropy(joint.sum(1)) - both)


@dataclass(frozen=True)
class FactorInformation:
    """What codes tell about a factor, in nats, beyond what chance would seem to tell."""

    information: Numbers  # (V,), I(z; factor) − baseline
    baseline: Numbers  # (V,), the mean over permuted factors
    entropy: float  # of the factor, which is the most there is to tell


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
    found = mutual_information(posterior, classes) - baseline
    return FactorInformation(found, baseline, float(entropy(share)))
