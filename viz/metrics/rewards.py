"""Prediction of rewards and returns, over windows (N, T)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Bootstrap, Estimate, Numbers, Rows
from wmtk.viz.metrics.events import around, tolerant_average_precision
from wmtk.viz.metrics.numbers import correlation, r_squared, rank_correlation

NEGLIGIBLE = 0.05  # of the size of returns: smaller deviations are not counted as variation
SPARSE = 0.2  # rewards are events if fewer steps than this share have one
TOLERANCE = 1  # steps

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class EventQuality:
    """Prediction of the steps with a reward of one sign."""

    count: int
    base_rate: float  # the average precision of a constant prediction
    average_precision: Estimate
    with_tolerance: Estimate
    tolerance: int  # steps
    size: Estimate  # Σ predicted within the tolerance / Σ true; 1 is ideal


@dataclass(frozen=True)
class RewardQuality:
    sparse: bool
    share: float  # of steps with a reward
    amount: float  # Σ |reward| of a window, on average
    r_squared: Estimate
    correlation: Estimate
    error: Estimate  # (T,), the mean absolute error at each step
    correlation_at: Numbers  # (T,), across windows
    positive: EventQuality | None  # where rewards are sparse
    negative: EventQuality | None
    return_bias: Estimate  # of the sum of a window: predicted − true


def reward_quality(
    truth: ArrayLike,
    prediction: ArrayLike,
    mask: Mask,
    bootstrap: Bootstrap,
    *,
    tolerance: int = TOLERANCE,
    sparse: bool | None = None,
) -> RewardQuality:
    """Quality of predictions of raw rewards (N, T); the rows of the bootstrap are windows.

    Sparse rewards are measured as events; by default rewards are sparse if they are rare here.
    """
    true, predicted = np.asarray(truth, np.float64), np.asarray(prediction, np.float64)
    share = float((true[mask] != 0).mean())
    sparse = 0 < share < SPARSE if sparse is None else sparse

    def chosen(rows: Rows) -> tuple[Numbers, Numbers]:
        return true[rows][mask[rows]], predicted[rows][mask[rows]]

    def events(sign: int) -> EventQuality | None:
        happened = (np.sign(true) == sign) & mask
        if not sparse or not happened.any():
            return None
        exact, near = (
            bootstrap.statistic(
                lambda rows, near=near: tolerant_average_precision(  # type: ignore[misc]
                    happened[rows], sign * predicted[rows], near, mask[rows]
                )
            )
            for near in (0, tolerance)
        )
        close = (around(happened.astype(np.float64), tolerance) > 0) & mask
        amount = np.where(close, sign * predicted, 0).sum(1)
        size = bootstrap.ratio(amount, np.where(happened, np.abs(true), 0).sum(1))
        count = int(happened.sum())
        return EventQuality(count, count / int(mask.sum()), exact, near, tolerance, size)

    bias = ((predicted - true) * mask).sum(1)
    return RewardQuality(
        sparse=sparse,
        share=share,
        amount=float(np.abs(true * mask).sum(1).mean()),
        r_squared=bootstrap.statistic(lambda rows: r_squared(*chosen(rows))),
        correlation=bootstrap.statistic(lambda rows: correlation(*chosen(rows))),
        error=bootstrap.mean(np.abs(predicted - true), mask),
        correlation_at=np.array(
            [correlation(true[m, t], predicted[m, t]) for t, m in enumerate(mask.T)]
        ),
        positive=events(1),
        negative=events(-1),
        return_bias=bootstrap.mean(bias),
    )


@dataclass(frozen=True)
class ReturnQuality:
    """Imagined returns against true ones."""

    size: float  # the root mean square of the true ones
    varied: int  # how many true ones differ from their median
    true: Estimate  # the means
    imagined: Estimate
    bias: Estimate
    correlation: Estimate
    rank_correlation: Estimate


def return_quality(truth: ArrayLike, imagined: ArrayLike, bootstrap: Bootstrap) -> ReturnQuality:
    """Compare returns (N,) of windows or episodes, which are the rows of the bootstrap."""
    true, predicted = np.asarray(truth, np.float64), np.asarray(imagined, np.float64)
    size = float(np.sqrt(np.square(true).mean()))
    return ReturnQuality(
        size=size,
        varied=int((np.abs(true - np.median(true)) > NEGLIGIBLE * size).sum()),
        true=bootstrap.mean(true),
        imagined=bootstrap.mean(predicted),
        bias=bootstrap.mean(predicted - true),
        correlation=bootstrap.statistic(lambda rows: correlation(true[rows], predicted[rows])),
        rank_correlation=bootstrap.statistic(
            lambda rows: rank_correlation(true[rows], predicted[rows])
        ),
    )


def discounted_return(reward: ArrayLike, discount: ArrayLike) -> Numbers:
    """Σ_t reward_t · Π_{i<t} discount_i over (N, T): the first reward is not discounted."""
    return np.asarray((np.asarray(reward, np.float64) * discount_before(discount)).sum(-1))


def discount_before(discount: ArrayLike) -> Numbers:
    """Π_{i<t} discount_i at each step t of (…, T): 1 at the first one."""
    each = np.asarray(discount, np.float64)
    shifted = np.concatenate([np.ones_like(each[..., :1]), each[..., :-1]], -1)
    return np.asarray(np.cumprod(shifted, -1))


def expected_return(reward: ArrayLike, discount: ArrayLike, value: ArrayLike) -> Numbers:
    """The discounted return of (…, T), bootstrapped with the value of the last row.

    The value of a state includes the reward of arriving there, so it replaces the last reward.
    """
    rewards = np.array(reward, np.float64)
    rewards[..., -1] = np.asarray(value, np.float64)[..., -1]
    return discounted_return(rewards, discount)
