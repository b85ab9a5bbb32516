"""Calibration of predicted rewards and ends, by step and by predicted value."""

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
    """Means of predictions and of true values in B bins, sorted by prediction."""

    count: NDArray[np.int64]  # (B,)
    predicted: Numbers  # (B,)
    observed: Numbers  # (B,)


@dataclass(frozen=True)
class HeadCalibration:
    """Calibration of rewards and ends; `_at` are means over windows at each of H imagined steps."""

    reward_observed: Binned
    reward_imagined: Binned
    reward_true_at: Estimate
    reward_imagined_at: Estimate
    end_true_at: Estimate
    end_imagined_at: Estimate | None  # None without a discount head


def binned(truth: ArrayLike, prediction: ArrayLike, bins: int = BINS) -> Binned:
    """Sort predictions into bins of equal width over their range, and drop empty bins."""
    true, predicted = np.asarray(truth, np.float64), np.asarray(prediction, np.float64)
    low, high = float(predicted.min()), float(predicted.max())
    scaled = (predicted - low) / max(high - low, 1e-12) * bins
    index = np.clip(scaled.astype(np.int64), 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    filled = count > 0
    return Binned(
        count=count[filled],
        predicted=np.bincount(index, predicted, bins)[filled] / count[filled],
        observed=np.bincount(index, true, bins)[filled] / count[filled],
    )


def calibrate(data: Measurements, *, seed: int = 0) -> HeadCalibration:
    """Compute the calibration of the reward head and of the discount head."""
    bootstrap = Bootstrap(data.episode, seed=seed)
    mask, ahead, C = data.mask, data.ahead, data.context
    ends = None
    if data.gamma is not None:
        ends = terminal_probability(data.discount_imagined, data.gamma)
    return HeadCalibration(
        reward_observed=binned(data.reward[mask], data.reward_observed[mask]),
        reward_imagined=binned(data.reward[:, C:][ahead], data.reward_imagined[ahead]),
        reward_true_at=bootstrap.mean(data.reward[:, C:], ahead),
        reward_imagined_at=bootstrap.mean(data.reward_imagined, ahead),
        end_true_at=bootstrap.mean(data.terminal[:, C:], ahead),
        end_imagined_at=None if ends is None else bootstrap.mean(ends, ahead),
    )
