"""Imagined returns of a policy against true ones, over the checkpoints of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import CONFIDENCE, RESAMPLES, Bootstrap, Estimate, Numbers
from wmtk.viz.metrics.numbers import rank_correlation


@dataclass(frozen=True)
class TrainingReturns:
    """Mean returns at C checkpoints, and the rank correlation over these."""

    true: Estimate  # (C,)
    imagined: Estimate  # (C,)
    bias: Estimate  # (C,), imagined − true
    rank_correlation: Estimate  # a scalar; NaN for one checkpoint or equal means


def training_returns(
    truth: Sequence[ArrayLike],
    imagined: Sequence[ArrayLike],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TrainingReturns:
    """Compare the true and the imagined returns (E,) of the episodes of each checkpoint.

    Intervals are bootstrapped over the episodes of each checkpoint; they do not cover the variation
    from one training to another.
    """
    assert len(truth) == len(imagined) > 0, (len(truth), len(imagined))
    pairs = [
        (np.asarray(t, np.float64), np.asarray(i, np.float64))
        for t, i in zip(truth, imagined, strict=True)
    ]
    means = []
    for true, predicted in pairs:
        assert true.shape == predicted.shape, (true.shape, predicted.shape)
        bootstrap = Bootstrap(
            np.arange(len(true)), confidence=confidence, resamples=resamples, seed=seed
        )
        means.append([bootstrap.mean(numbers) for numbers in (true, predicted, predicted - true)])
    rng = np.random.default_rng(seed)
    resampled = np.stack([_resampled_means(*p, resamples, rng) for p in pairs], -1)  # (2, R, C)
    true_means, imagined_means, bias = (
        _stacked([each[part] for each in means]) for part in range(3)
    )
    ranks = np.array([rank_correlation(*both) for both in resampled.swapaxes(0, 1)])
    value = np.asarray(rank_correlation(true_means.value, imagined_means.value))
    outside = (1 - confidence) / 2
    low = high = np.asarray(np.nan)
    if not np.isnan(value) and min(len(true) for true, _ in pairs) > 1:
        low, high = np.nanquantile(ranks, [outside, 1 - outside])
    rank = Estimate(value, np.asarray(low), np.asarray(high))
    return TrainingReturns(true_means, imagined_means, bias, rank)


def _resampled_means(
    true: Numbers, predicted: Numbers, times: int, rng: np.random.Generator
) -> Numbers:
    """Means of both over episodes drawn with replacement, in pairs: (2, R)."""
    E = len(true)
    counts = rng.multinomial(E, np.full(E, 1 / E), times)  # (R, E)
    return np.stack([counts @ true, counts @ predicted]) / E


def _stacked(parts: Sequence[Estimate]) -> Estimate:
    return Estimate(
        *(np.stack([getattr(p, name) for p in parts]) for name in ("value", "low", "high"))
    )
