"""Whether rewards and ends are as large and as frequent as predicted, step by step and by size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Numbers
from wmtk.viz.evaluation.measurements import Measurements
from wmtk.viz.metrics import Bootstrap, Estimate, terminal_probability

BINS = 12


@dataclass(frozen=True)
class Binned:
    """Predictions of about the same size, and what came: B bins, smallest first."""

    count: NDArray[np.int64]  # (B,)
    predicted: Numbers  # (B,), means
    observed: Numbers  # (B,)


@dataclass(frozen=True)
class HeadCalibration:
    """Rewards and ends; `_at` are means over windows at each of H imagined steps."""

    reward_observed: Binned
    reward_imagined: Binned
    reward_true_at: Estimate
    reward_imagined_at: Estimate
    end_true_at: Estimate
    end_imagined_at: Estimate | None  # None if ends are not learned


def binned(truth: ArrayLike, prediction: ArrayLike, bins: int = BINS) -> Binned:
    """Predictions in bins of equal width between the smallest and the largest, empty ones out."""
    true, found = np.asarray(truth, np.float64), np.asarray(prediction, np.float64)
    low, high = float(found.min()), float(found.max())
    scaled = (found - low) / max(high - low, 1e-12) * bins
    index = np.clip(scaled.astype(np.int64), 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    some = count > 0
    predicted = np.bincount(index, found, bins)[some] / count[some]
    observed = np.bincount(index, true, bins)[some] / count[some]
    return Binned(count[some], predicted, observed)


def calibrate(found: Measurements, *, seed: int = 0) -> HeadCalibration:
    bootstrap = Bootstrap(found.episode, seed=seed)
    mask, ahead, C = found.mask, found.ahead, found.context
    ends = None
    if found.gamma is not None:
        ends = terminal_probability(found.discount_imagined, found.gamma)
    return HeadCalibration(
        reward_observed=binned(found.reward[mask], found.reward_observed[mask]),
        reward_imagined=binned(found.reward[:, C:][ahead], found.reward_imagined[ahead]),
        reward_true_at=bootstrap.mean(found.reward[:, C:], ahead),
        reward_imagined_at=bootstrap.mean(found.reward_imagined, ahead),
        end_true_at=bootstrap.mean(found.terminal[:, C:], ahead),
        end_imagined_at=None if ends is None else bootstrap.mean(ends, ahead),
    )
