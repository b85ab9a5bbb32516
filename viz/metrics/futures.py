"""Several sampled futures of one context: the best one, their spread, sensitivity to actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Bootstrap, Estimate, Numbers


def best_future(scores: Numbers, mask: NDArray[np.bool_]) -> Numbers:
    """The scores (N, T) of the future with the highest mean score, of scores (N, S, T).

    Steps where the mask (N, T) is false are ignored.
    """
    means = np.where(mask[:, None], scores, 0).sum(-1)  # sums, which have the same order as means
    best: Numbers = np.take_along_axis(scores, means.argmax(1)[:, None, None], 1)[:, 0]
    return best


def spread(futures: Numbers) -> Numbers:
    """The unbiased variance of futures (S, …): (…); NaN for a single one."""
    if len(futures) < 2:
        return np.full(futures.shape[1:], np.nan)
    return np.asarray(futures.var(0, ddof=1))


def spread_skill(
    variance: ArrayLike, error_of_mean: ArrayLike, samples: int, bootstrap: Bootstrap
) -> Estimate:
    """The ratio of the spread to the error of the futures' mean; both (N, T), gives (T,).

    1 if the truth is distributed as the futures are; below 1 the model is overconfident, above 1
    underconfident.
    """
    # The squared error of the mean of S futures is (1 + 1/S) of the variance in expectation.
    expected = np.asarray(variance, np.float64) * (samples + 1) / samples
    return bootstrap.ratio(expected, error_of_mean).map(np.sqrt)


def fair_error(error_of_mean: Numbers, variance: Numbers, samples: int) -> Numbers:
    """An estimate of the squared error of the mean of infinitely many futures.

    It is made from the mean of S futures and their variance; the error of one future is returned
    unchanged.
    """
    if samples < 2:
        return error_of_mean
    return error_of_mean - variance / samples


def other_windows(windows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each window another one at random: a permutation without fixed points."""
    assert windows >= 2, windows
    order = rng.permutation(windows)
    swapped = np.empty(windows, np.int64)
    swapped[order] = np.roll(order, 1)
    return swapped


def sensitivity(score: Numbers, without: Numbers, weights: ArrayLike, bs: Bootstrap) -> Estimate:
    """The mean of score − without over windows (N, T): (T,).

    With scores of the true actions and of those of other windows this is the action sensitivity,
    which is near 0 if predictions do not depend on the actions.
    """
    return bs.mean(score - without, weights)
