"""Whether a model knows when a task is over: its discounts against the true ends."""

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
    """The probability of a terminal step, as the discount gives it, against what happened."""

    steps: int
    terminal: int  # steps at which the task was over
    base_rate: float
    expected_rate: float  # the mean probability
    average_precision: Estimate  # against the base rate
    auc: Estimate
    brier: Estimate
    brier_of_base_rate: float
    calibration_error: float
    reliability: Reliability
    truncated: int  # steps at which an episode was cut off; these are no ends of the task
    at_truncated: float  # the mean probability there, which should be low; NaN without any


def terminal_probability(discount: ArrayLike, gamma: float) -> Numbers:
    """1 − discount/γ: a discount is γ times the probability of going on."""
    going_on = np.asarray(discount, np.float64) / gamma
    return np.asarray(1 - np.clip(going_on, 0, 1))


def ending_quality(
    terminal: ArrayLike,
    truncated: ArrayLike,
    probability: ArrayLike,
    mask: ArrayLike,
    bootstrap: Bootstrap,
) -> EndingQuality:
    """Compare over windows (N, T); the bootstrap's rows are windows."""
    over, cut, exists = (np.asarray(x, bool) for x in (terminal, truncated, mask))
    expected = np.asarray(probability, np.float64)
    cut = cut & ~over & exists

    def chosen(rows: Rows) -> tuple[Numbers, Numbers]:
        return over[rows][exists[rows]], expected[rows][exists[rows]]

    happened, said = over[exists], expected[exists]
    base = float(happened.mean())
    curve = reliability(happened, said)
    return EndingQuality(
        steps=len(happened),
        terminal=int(happened.sum()),
        base_rate=base,
        expected_rate=float(said.mean()),
        average_precision=bootstrap.statistic(lambda rows: average_precision(*chosen(rows))),
        auc=bootstrap.statistic(lambda rows: roc_auc(*chosen(rows))),
        brier=bootstrap.statistic(lambda rows: brier(*chosen(rows))),
        brier_of_base_rate=base * (1 - base),
        calibration_error=curve.error,
        reliability=curve,
        truncated=int(cut.sum()),
        at_truncated=float(expected[cut].mean()) if cut.any() else np.nan,
    )
