"""What a policy imagines to reach against what it reaches, from checkpoint to checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import CONFIDENCE, RESAMPLES, Bootstrap, Estimate, Numbers
from wmtk.viz.metrics.numbers import rank_correlation


@dataclass(frozen=True)
class TrainingReturns:
    """Mean returns at C checkpoints, and whether they have the same order."""

    true: Estimate  # (C,)
    imagined: Estimate  # (C,)
    bias: Estimate  # (C,), imagined − true
    rank_correlation: Estimate  # a scalar; NaN for one checkpoint, or where all are alike


def training_returns(
    truth: Sequence[ArrayLike],
    imagined: Sequence[ArrayLike],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TrainingReturns:
    """Compare returns (E,) of episodes, each with what was imagined of it, of each checkpoint.

    Intervals are bootstrapped over the episodes of each checkpoint. The checkpoints themselves are
    taken as they are: what another training would have done is not in them.
    """
    assert len(truth) == len(imagined) > 0, (len(truth), len(imagined))
    pairs = [
        (np.asarray(t, np.float64), np.asarray(i, np.float64))
        for t, i in zip(truth, imagined, strict=True)
    ]
    means = []
    for came, said in pairs:
        assert came.shape == said.shape, (came.shape, said.shape)
        bootstrap = Bootstrap(
            np.arange(len(came)), confidence=confidence, resamples=resamples, seed=seed
        )
        means.append([bootstrap.mean(numbers) for numbers in (came, said, said - came)])
    rng = np.random.default_rng(seed)
    drawn = [_drawn_means(*pair, resamples, rng) for pair in pairs]  # C times (2, R)
    many = np.stack(drawn, -1)  # (2, R, C)
    true, found, bias = (_stacked([each[part] for each in means]) for part in range(3))
    ranks = np.array([rank_correlation(*both) for both in many.swapaxes(0, 1)])
    value = np.asarray(rank_correlation(true.value, found.value))
    outside = (1 - confidence) / 2
    low = high = np.asarray(np.nan)
    if not np.isnan(value) and min(len(came) for came, _ in pairs) > 1:
        low, high = np.nanquantile(ranks, [outside, 1 - outside])
    return TrainingReturns(true, found, bias, Estimate(value, np.asarray(low), np.asarray(high)))


def _drawn_means(true: Numbers, found: Numbers, times: int, rng: np.random.Generator) -> Numbers:
    """Means of both over episodes that are drawn with replacement, in pairs: (2, R)."""
    E = len(true)
    counts = rng.multinomial(E, np.full(E, 1 / E), times)  # (R, E)
    return np.stack([counts @ true, counts @ found]) / E


def _stacked(parts: Sequence[Estimate]) -> Estimate:
    return Estimate(
        *(np.stack([getattr(p, name) for p in parts]) for name in ("value", "low", "high"))
    )
