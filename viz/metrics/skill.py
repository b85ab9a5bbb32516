"""Whether a prediction is worth more than a simple guess, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import Bootstrap, Estimate


@dataclass(frozen=True)
class Usable:
    """The steps 1 … H over which a skill is surely above 0: from `first` to `last`, or 0 and 0."""

    first: int
    last: int


def skill(error: ArrayLike, baseline: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """1 − Σ error / Σ error of a baseline, over windows (N, H): (H,).

    1 is perfect, 0 is no better than the baseline, below 0 is worse. Where the baseline makes no
    error there is nothing to gain, and the skill is NaN.
    """
    return bootstrap.ratio(error, baseline).map(lambda ratio: 1 - ratio)


def usable_horizon(found: Estimate) -> Usable:
    """The stretch of steps over which the interval of a skill (H,) stays above 0.

    It begins where the interval first is above 0, which may be late: copying the last frame is
    hard to beat right after it. Without intervals the value itself has to be above 0. A NaN, where
    there was nothing to predict, does not end the stretch.
    """
    floor = np.where(np.isnan(found.low), found.value, found.low)
    good, known = floor > 0, ~np.isnan(floor)
    if not good.any():
        return Usable(0, 0)
    first = int(good.argmax())
    bad = np.flatnonzero(known[first:] & ~good[first:])
    end = first + int(bad[0]) if len(bad) else len(floor)
    last = int(np.flatnonzero(good[:end])[-1])
    return Usable(first + 1, last + 1)
