"""Prediction of terminal steps: predicted discounts against the recorded ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import Bootstrap, Estimate, Numbers, Rows
from wmtk.viz.metrics.events import (
    Reliability,
    average_precision,
    brier,
    reliability,
    roc_auc,
)


@dataclass(frozen=True)
class EndingQuality:
    """The probability of a terminal step, from the discount, against the recorded steps."""

    steps: int
    terminal: int  # terminal steps
    base_rate: float
    expected_rate: float  # the mean probability
    average_precision: Estimate  # a constant prediction reaches the base rate
    auc: Estimate
    brier: Estimate
    brier_of_base_rate: float
    calibration_error: float
    reliability: Reliability
    truncated: int  # steps at which an episode was truncated, which are not terminal
    at_truncated: float  # the mean probability there, ideally low; NaN without any


def terminal_probability(discount: ArrayLike, gamma: float) -> Numbers:
    """1 − discount/γ: a discount is γ times the probability of continuing."""
    continuing = np.asarray(discount, np.float64) / gamma
    return np.asarray(1 - np.clip(continuing, 0, 1))


def ending_quality(
    terminal: ArrayLike,
    truncated: ArrayLike,
    probability: ArrayLike,
    mask: ArrayLike,
    bootstrap: Bootstrap,
) -> EndingQuality:
    """Quality over windows (N, T); the rows of the bootstrap are windows."""
    ended, cut, exists = (np.asarray(x, bool) for x in (terminal, truncated, mask))
    expected = np.asarray(probability, np.float64)
    cut = cut & ~ended & exists

    def chosen(rows: Rows) -> tuple[Numbers, Numbers]:
        return ended[rows][exists[rows]], expected[rows][exists[rows]]

    happened, predicted = ended[exists], expected[exists]
    base = float(happened.mean())
    curve = reliability(happened, predicted)
    return EndingQuality(
        steps=len(happened),
        terminal=int(happened.sum()),
        base_rate=base,
        expected_rate=float(predicted.mean()),
        average_precision=bootstrap.statistic(lambda rows: average_precision(*chosen(rows))),
        auc=bootstrap.statistic(lambda rows: roc_auc(*chosen(rows))),
        brier=bootstrap.statistic(lambda rows: brier(*chosen(rows))),
        brier_of_base_rate=base * (1 - base),
        calibration_error=curve.error,
        reliability=curve,
        truncated=int(cut.sum()),
        at_truncated=float(expected[cut].mean()) if cut.any() else np.nan,
    )
