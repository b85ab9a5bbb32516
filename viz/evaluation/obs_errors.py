"""Errors of predicted observations and of the baselines, for images and for vectors.

Images are compared as pixels from 0 to 1. Vectors are divided by their standard deviation in the
data, so that every component has the same weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.stats import Numbers
from wmtk.viz.metrics.frames import RADIUS, ssim, to_unit
from wmtk.viz.metrics.futures import spread

Rows = NDArray[Any]


@dataclass(frozen=True)
class Scale:
    """Scales the rows of one observation key."""

    image: bool
    average: Numbers  # (P,), the mean row
    deviation: Numbers  # (P,)

    @classmethod
    def of(cls, image: bool, rows: Iterable[Rows]) -> Scale:
        """Compute mean and deviation from all rows, given in pieces (n, …)."""
        count, total, squares = 0, np.zeros(1), np.zeros(1)
        for piece in rows:
            numbers = _flat(piece, image)
            count += len(numbers)
            total = total + numbers.sum(0)
            squares = squares + np.square(numbers).sum(0)
        assert count, "no rows"
        average = total / count
        variance = np.maximum(squares / count - average**2, 0)
        return cls(image, average, np.sqrt(variance))

    def numbers(self, rows: Rows, lead: int) -> Numbers:
        """Scaled rows (…, P), of which the first `lead` dimensions are kept."""
        flat = _flat(rows.reshape(-1, *rows.shape[lead:]), self.image)
        if not self.image:
            flat = self.scaled(flat)
        return flat.reshape(*rows.shape[:lead], -1)

    def scaled(self, flat: Numbers) -> Numbers:
        """Standardized components; constant ones are left out."""
        varies = self.deviation > 1e-8
        return (flat - self.average)[..., varies] / self.deviation[varies]

    @property
    def baseline(self) -> Numbers:
        """The mean row, scaled as by `numbers`."""
        return self.average if self.image else self.scaled(self.average)


def mean_error(errors: Numbers) -> Numbers:
    """The mean over the last axis; NaN if no component varies."""
    if not errors.shape[-1]:
        return np.full(errors.shape[:-1], np.nan)
    return np.asarray(errors.mean(-1))


def _flat(rows: Rows, image: bool) -> Numbers:
    """(n, …) as numbers (n, P)."""
    numbers = to_unit(rows) if image else rows.astype(np.float64)
    return numbers.reshape(len(rows), -1)


@dataclass(frozen=True)
class ObsErrors:
    """Mean squared errors at each of H steps after the context, for N windows and S futures."""

    error: Numbers  # (N, S, H), of each future
    error_of_mean: Numbers  # (N, H), of the mean of the futures
    variance: Numbers  # (N, H), of the futures, NaN for one
    ceiling: Numbers  # (N, H), of the reconstruction of the row
    copy: Numbers  # (N, H), of repeating the last row of the context
    average: Numbers  # (N, H), of the mean row
    moved: Numbers  # (N, H), the share of pixels or components that differ from the last row
    # Squared errors summed over these pixels or components, divided by the number of all.
    moved_error: Numbers  # (N, H), mean over futures
    moved_ceiling: Numbers  # (N, H)
    moved_copy: Numbers  # (N, H)
    moved_average: Numbers  # (N, H)
    ssim: Numbers  # (N, H), of the first future; NaN where it is not defined
    ssim_ceiling: Numbers  # (N, H)


def obs_errors(
    scale: Scale, truth: Rows, futures: Rows, reconstruction: Rows, last: Rows, baseline: Numbers
) -> ObsErrors:
    """Errors of one window.

    Takes truth (H, …), futures (S, H, …), reconstructions (H, …), the last row of the context (…)
    and the scaled mean row (P,).
    """
    true = scale.numbers(truth, 1)  # (H, P)
    predicted = scale.numbers(futures, 2)  # (S, H, P)
    reconstructed = scale.numbers(reconstruction, 1)
    before = scale.numbers(last, 0)
    squares = np.square(predicted - true)
    ceiling, copy = np.square(reconstructed - true), np.square(before - true)
    average = np.square(baseline - true)
    moved = (true != before).astype(np.float64)
    similar = [_ssim(scale, image, truth) for image in (futures[0], reconstruction)]

    def where_moved(errors: Numbers) -> Numbers:
        return mean_error(errors * moved)

    return ObsErrors(
        error=mean_error(squares),
        error_of_mean=mean_error(np.square(predicted.mean(0) - true)),
        variance=mean_error(spread(predicted)),
        ceiling=mean_error(ceiling),
        copy=mean_error(copy),
        average=mean_error(average),
        moved=mean_error(moved),
        moved_error=where_moved(squares.mean(0)),
        moved_ceiling=where_moved(ceiling),
        moved_copy=where_moved(copy),
        moved_average=where_moved(average),
        ssim=similar[0],
        ssim_ceiling=similar[1],
    )


def _ssim(scale: Scale, first: Rows, second: Rows) -> Numbers:
    if not scale.image or min(second.shape[1:3]) <= 2 * RADIUS:
        return np.full(len(second), np.nan)
    return ssim(first, second)


def stack_errors(windows: Sequence[ObsErrors]) -> ObsErrors:
    """Stack the errors of single windows along a first axis N."""
    names = [field.name for field in fields(ObsErrors)]
    return ObsErrors(**{name: np.stack([getattr(w, name) for w in windows]) for name in names})
