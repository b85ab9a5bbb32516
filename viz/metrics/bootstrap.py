"""How far a number could be off, had other episodes been recorded: bootstrap over episodes.

Frames of one episode are alike, so that resampling frames would make intervals far too narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]

CONFIDENCE = 0.95
RESAMPLES = 1000
FEWER = 300  # resamples of statistics that have to be computed anew for each


@dataclass(frozen=True)
class Estimate:
    """Numbers and their intervals, all of one shape; NaN where nothing can be said."""

    value: Numbers
    low: Numbers
    high: Numbers

    def map(self, function: Callable[[Numbers], Numbers]) -> Estimate:
        """The same numbers on another scale; a falling `function` turns the interval round."""
        value, low, high = function(self.value), function(self.low), function(self.high)
        return Estimate(value, np.minimum(low, high), np.maximum(low, high))

    def at(self, *index: int) -> Estimate:
        """One of the numbers."""
        return Estimate(*(np.asarray(part[index]) for part in (self.value, self.low, self.high)))

    def __str__(self) -> str:
        if self.value.ndim:
            return repr(self)
        if np.isnan(self.low):
            return f"{self.value:.3g}"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


class Bootstrap:
    """Draws whole episodes with replacement. The same seed gives the same draws.

    `episode` (N,) says which episode each row of the data belongs to; rows may be windows. With
    one episode there are no intervals.
    """

    def __init__(
        self,
        episode: ArrayLike,
        *,
        confidence: float = CONFIDENCE,
        resamples: int = RESAMPLES,
        seed: int = 0,
    ) -> None:
        assert 0 < confidence < 1, confidence
        labels, self._of = np.unique(np.asarray(episode), return_inverse=True)
        self.episodes = E = len(labels)
        assert E, "no episode"
        self._outside = (1 - confidence) / 2
        rng = np.random.default_rng(seed)
        self._counts: Rows = rng.multinomial(E, np.full(E, 1 / E), resamples)  # (R, E)

    def ratio(self, numerator: ArrayLike, denominator: ArrayLike) -> Estimate:
        """Σ numerator / Σ denominator over the rows (N, …): (…)."""
        above, below = np.broadcast_arrays(
            np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
        )
        assert len(above) == len(self._of), (above.shape, self._of.shape)
        sums = [_sum_by(self._of, part, self.episodes) for part in (above, below)]
        drawn = [np.tensordot(self._counts, part, 1) for part in sums]  # (R, …)
        return self._estimate(_divide(above.sum(0), below.sum(0)), _divide(*drawn))

    def mean(self, values: ArrayLike, weights: ArrayLike = 1.0) -> Estimate:
        """The mean over the rows (N, …), those of weight 0 left out: (…)."""
        numbers = np.asarray(values, np.float64)
        weight = np.broadcast_to(np.asarray(weights, np.float64), numbers.shape)
        return self.ratio(np.where(weight > 0, numbers, 0) * weight, weight)

    def statistic(self, function: Callable[[Rows], float]) -> Estimate:
        """Any number that a function makes of the indices of rows."""
        everything = np.arange(len(self._of))
        rows = [np.flatnonzero(self._of == episode) for episode in range(self.episodes)]
        drawn = [
            function(np.concatenate([np.tile(rows[e], n) for e, n in enumerate(counts) if n]))
            for counts in self._counts[:FEWER]
        ]
        return self._estimate(np.asarray(function(everything)), np.asarray(drawn, np.float64))

    def _estimate(self, value: Numbers, drawn: Numbers) -> Estimate:
        nothing = np.full(value.shape, np.nan)
        if self.episodes < 2:
            return Estimate(value, nothing, nothing)
        flat = drawn.reshape(len(drawn), -1)
        low, high = nothing.reshape(-1).copy(), nothing.reshape(-1).copy()
        some = ~np.isnan(flat).all(0) & np.isfinite(value.reshape(-1))
        outside = [self._outside, 1 - self._outside]
        if some.any():
            low[some], high[some] = np.nanquantile(flat[:, some], outside, axis=0)
        return Estimate(value, low.reshape(value.shape), high.reshape(value.shape))


def _sum_by(index: Rows, values: Numbers, groups: int) -> Numbers:
    """The sums (G, …) of values (N, …) that have the same index."""
    sums = np.zeros((groups, *values.shape[1:]))
    np.add.at(sums, index, values)
    return sums


def _divide(above: Numbers, below: Numbers) -> Numbers:
    """NaN where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(below != 0, above / below, np.nan))
