"""Bootstrap intervals: estimates of the sampling variation of a statistic.

`bootstrap_interval` resamples single values such as returns. `Bootstrap` resamples whole
episodes: frames of one episode are correlated, so that intervals from resampled frames would be
far too narrow. The same seed gives the same interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]

CONFIDENCE = 0.95
VALUE_RESAMPLES = 10_000  # of single values, which take little time
RESAMPLES = 1000  # of episodes
STATISTIC_RESAMPLES = 300  # of statistics that are recomputed for each resample
BLOCK = 2_000_000  # numbers drawn at once


class Interval(NamedTuple):
    low: float
    high: float


def bootstrap_interval(
    values: ArrayLike,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = VALUE_RESAMPLES,
    seed: int = 0,
) -> Interval | None:
    """The percentile bootstrap interval of the mean of `values` (N,); None if N is 1.

    Intervals of few values are too narrow: with N = 5 a 95% interval contains the true mean in
    about 85% of cases.
    """
    numbers = np.asarray(values, np.float64)
    assert numbers.ndim == 1, numbers.shape
    assert np.isfinite(numbers).all(), numbers
    N = len(numbers)
    if N < 2:
        return None
    rng = np.random.default_rng(seed)
    means = [numbers[rng.integers(0, N, (count, N))].mean(-1) for count in blocks(resamples, N)]
    return percentile_interval(np.concatenate(means), confidence)


def percentile_interval(samples: Numbers, confidence: float) -> Interval:
    """The central interval that contains the share `confidence` of `samples` (R,)."""
    low, high = _percentiles(samples, confidence)
    return Interval(float(low), float(high))


def blocks(resamples: int, size: int) -> Iterator[int]:
    """Split `resamples` into counts, so that one block of resamples of `size` fits in memory."""
    assert resamples >= 1, resamples
    largest = max(1, BLOCK // size)
    for start in range(0, resamples, largest):
        yield min(largest, resamples - start)


@dataclass(frozen=True)
class Estimate:
    """Values and the bounds of their intervals, all of one shape; NaN where undefined."""

    value: Numbers
    low: Numbers
    high: Numbers

    def map(self, function: Callable[[Numbers], Numbers]) -> Estimate:
        """Apply a monotonic `function`; a decreasing one swaps the bounds."""
        value, low, high = function(self.value), function(self.low), function(self.high)
        return Estimate(value, np.minimum(low, high), np.maximum(low, high))

    def at(self, *index: int) -> Estimate:
        """The estimate of one element."""
        return Estimate(*(np.asarray(part[index]) for part in (self.value, self.low, self.high)))

    def __str__(self) -> str:
        if self.value.ndim:
            return repr(self)
        if np.isnan(self.low):
            return f"{self.value:.3g}"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


class Bootstrap:
    """Resamples whole episodes with replacement.

    `episode` (N,) is the episode of each row of the data; rows may be frames or windows. The
    bounds are NaN if there is only one episode.
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
        labels, self._episode_of = np.unique(np.asarray(episode), return_inverse=True)
        self.episodes = E = len(labels)
        assert E, "no episode"
        self._confidence = confidence
        rng = np.random.default_rng(seed)
        self._counts: Rows = rng.multinomial(E, np.full(E, 1 / E), resamples)  # (R, E)

    def ratio(self, numerator: ArrayLike, denominator: ArrayLike) -> Estimate:
        """Σ numerator / Σ denominator over the rows: (N, …) to (…)."""
        above, below = np.broadcast_arrays(
            np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
        )
        assert len(above) == len(self._episode_of), (above.shape, self._episode_of.shape)
        sums = [_sum_by(self._episode_of, part, self.episodes) for part in (above, below)]
        resampled = [np.tensordot(self._counts, part, 1) for part in sums]  # (R, …)
        return self._estimate(_divide(above.sum(0), below.sum(0)), _divide(*resampled))

    def mean(self, values: ArrayLike, weights: ArrayLike = 1.0) -> Estimate:
        """The weighted mean over the rows: (N, …) to (…). Values of weight 0 may be NaN."""
        numbers = np.asarray(values, np.float64)
        weight = np.broadcast_to(np.asarray(weights, np.float64), numbers.shape)
        return self.ratio(np.where(weight > 0, numbers, 0) * weight, weight)

    def statistic(self, function: Callable[[Rows], float]) -> Estimate:
        """A statistic that `function` computes from the indices of rows (M,)."""
        all_rows = np.arange(len(self._episode_of))
        rows = [np.flatnonzero(self._episode_of == episode) for episode in range(self.episodes)]
        resampled = [
            function(np.concatenate([np.tile(rows[e], n) for e, n in enumerate(counts) if n]))
            for counts in self._counts[:STATISTIC_RESAMPLES]
        ]
        return self._estimate(np.asarray(function(all_rows)), np.asarray(resampled, np.float64))

    def _estimate(self, value: Numbers, resampled: Numbers) -> Estimate:
        undefined = np.full(value.shape, np.nan)
        if self.episodes < 2:
            return Estimate(value, undefined, undefined)
        resampled = np.where(np.isfinite(value), resampled, np.nan)
        return Estimate(value, *_percentiles(resampled, self._confidence))


def _percentiles(samples: Numbers, confidence: float) -> tuple[Numbers, Numbers]:
    """The bounds (…) that contain the share `confidence` of samples (R, …), ignoring NaN."""
    assert 0 < confidence < 1, confidence
    outside = (1 - confidence) / 2
    flat = samples.reshape(len(samples), -1)
    bounds = np.full((2, flat.shape[1]), np.nan)
    defined = ~np.isnan(flat).all(0)
    if defined.any():
        bounds[:, defined] = np.nanquantile(flat[:, defined], [outside, 1 - outside], axis=0)
    low, high = bounds.reshape(2, *samples.shape[1:])
    return low, high


def _sum_by(index: Rows, values: Numbers, groups: int) -> Numbers:
    """The sums (G, …) of the values (N, …) of each group."""
    sums = np.zeros((groups, *values.shape[1:]))
    np.add.at(sums, index, values)
    return sums


def _divide(above: Numbers, below: Numbers) -> Numbers:
    """The quotient, NaN where the denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(below != 0, above / below, np.nan))
