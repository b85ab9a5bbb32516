"""Several futures of one beginning: the best of them, how far they differ, what actions change."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Bootstrap, Estimate, Numbers


def best_future(scores: Numbers, mask: NDArray[np.bool_]) -> Numbers:
    """Of futures with scores (N, S, T), those (N, T) of the future that is best on the whole.

    Steps where the mask (N, T) is false do not count.
    """
    means = np.where(mask[:, None], scores, 0).sum(-1)  # of equally many steps: a sum will do
    best: Numbers = np.take_along_axis(scores, means.argmax(1)[:, None, None], 1)[:, 0]
    return best


def spread(futures: Numbers) -> Numbers:
    """The variance of futures (S, …), without bias: (…). One future has none, which is NaN."""
    if len(futures) < 2:
        return np.full(futures.shape[1:], np.nan)
    return np.asarray(futures.var(0, ddof=1))


def spread_skill(
    variance: ArrayLike, error_of_mean: ArrayLike, samples: int, bootstrap: Bootstrap
) -> Estimate:
    """How large the spread is, for the error of the futures' mean; both (N, T), gives (T,).

    1 if the truth is like one more future. Below 1 the model is too sure of itself, above 1 it
    hesitates too much.
    """
    # The mean of S futures is off by (1 + 1/S) of the variance, if the truth is one of them.
    expected = np.asarray(variance, np.float64) * (samples + 1) / samples
    return bootstrap.ratio(expected, error_of_mean).map(np.sqrt)


def fair_error(error_of_mean: Numbers, variance: Numbers, samples: int) -> Numbers:
    """The squared error that the mean of infinitely many futures would have.

    It is estimated from the mean of S futures and their variance; with one future it is not known
    and the error stays as it is.
    """
    if samples < 2:
        return error_of_mean
    return error_of_mean - variance / samples


def other_windows(windows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each window another one, at random: an order in which none keeps its place."""
    assert windows >= 2, windows
    order = rng.permutation(windows)
    swapped = np.empty(windows, np.int64)
    swapped[order] = np.roll(order, 1)
    return swapped


def sensitivity(score: Numbers, without: Numbers, weights: ArrayLike, bs: Bootstrap) -> Estimate:
    """The mean of score − without over windows (N, T): (T,).

    Of scores with the true actions and with those of other windows it is the action sensitivity:
    near 0 a model does not mind what is done.
    """
    return bs.mean(score - without, weights)
