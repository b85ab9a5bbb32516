"""Skill: the error of predictions relative to that of a baseline, at each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import Bootstrap, Estimate


@dataclass(frozen=True)
class Usable:
    """The steps from 1 over which the interval of a skill is above 0; 0 and 0 if there are none."""

    first: int
    last: int


def skill(error: ArrayLike, baseline: ArrayLike, bootstrap: Bootstrap) -> Estimate:
    """1 − Σ error / Σ error of a baseline, over windows (N, H): (H,).

    1 is perfect, 0 equals the baseline, below 0 is worse. NaN where the error of the baseline is 0.
    """
    return bootstrap.ratio(error, baseline).map(lambda ratio: 1 - ratio)


def usable_horizon(values: Estimate) -> Usable:
    """The range of steps over which the interval of a skill (H,) stays above 0.

    It begins at the first step whose interval is above 0, which may be late: copying the last frame
    is a strong baseline at first. Without intervals the value itself has to be above 0. NaN, where
    the baseline has no error, does not end the range.
    """
    floor = np.where(np.isnan(values.low), values.value, values.low)
    good, known = floor > 0, ~np.isnan(floor)
    if not good.any():
        return Usable(0, 0)
    first = int(good.argmax())
    bad = np.flatnonzero(known[first:] & ~good[first:])
    end = first + int(bad[0]) if len(bad) else len(floor)
    last = int(np.flatnonzero(good[:end])[-1])
    return Usable(first + 1, last + 1)
