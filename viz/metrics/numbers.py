"""Prediction of numbers: errors, correlations, explained variance of arrays (N,)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import Numbers


def mean_absolute_error(truth: ArrayLike, prediction: ArrayLike) -> float:
    return float(np.abs(np.asarray(prediction) - np.asarray(truth)).mean())


def r_squared(truth: ArrayLike, prediction: ArrayLike) -> float:
    """1 − squared error / variance: 1 is perfect, 0 as good as the mean; NaN without variance."""
    true = np.asarray(truth, np.float64)
    total = np.square(true - true.mean(0)).sum()
    if not total:
        return np.nan
    return float(1 - np.square(np.asarray(prediction) - true).sum() / total)


def correlation(truth: ArrayLike, prediction: ArrayLike) -> float:
    """Pearson's correlation; NaN if an argument is constant."""
    first, second = (np.asarray(x, np.float64) for x in (truth, prediction))
    if not len(first) or np.ptp(first) == 0 or np.ptp(second) == 0:
        return np.nan
    first, second = first - first.mean(), second - second.mean()
    return float((first * second).sum() / np.sqrt((first**2).sum() * (second**2).sum()))


def rank_correlation(truth: ArrayLike, prediction: ArrayLike) -> float:
    """Spearman's correlation: the correlation of the ranks."""
    return correlation(rank(truth), rank(prediction))


def rank(values: ArrayLike) -> Numbers:
    """Ranks from 1 on; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])
