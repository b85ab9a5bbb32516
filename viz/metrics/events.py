"""Whether events are foreseen: average precision, area under the ROC curve, calibration.

`truth` is whether an event happened, `score` or `probability` how much it was expected: (N,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.stats import Numbers

Flags = NDArray[np.bool_]

BINS = 10


def average_precision(truth: ArrayLike, score: ArrayLike) -> float:
    """Σ (recall_i − recall_{i−1}) · precision_i over falling thresholds; NaN without an event.

    A score that knows nothing reaches the share of events.
    """
    return tolerant_average_precision(np.asarray(truth)[None], np.asarray(score)[None], 0)


def tolerant_average_precision(
    truth: ArrayLike, score: ArrayLike, tolerance: int, mask: ArrayLike | None = None
) -> float:
    """The same over windows (N, T), where an alarm may be `tolerance` steps early or late.

    At a threshold, precision is the share of alarms with an event near them, and recall the share
    of events with an alarm near them. Steps where the mask is false do not exist.
    """
    happened = np.asarray(truth, bool)
    alarm = np.asarray(score, np.float64)
    exists = np.ones(happened.shape, bool) if mask is None else np.asarray(mask, bool)
    happened = happened & exists
    alarm = np.where(exists, alarm, -np.inf)
    near = around(happened.astype(np.float64), tolerance)[exists] > 0
    heard = np.sort(around(alarm, tolerance)[happened])  # the loudest alarm near each event
    if not len(heard):
        return np.nan
    order = np.argsort(-alarm[exists], kind="stable")
    level, right = alarm[exists][order], np.cumsum(near[order])
    last = np.append(np.flatnonzero(np.diff(level)), len(level) - 1)  # of each distinct level
    precision = right[last] / (last + 1)
    recall = 1 - np.searchsorted(heard, level[last], "left") / len(heard)
    return float((np.diff(recall, prepend=0) * precision).sum())


def around(values: Numbers, tolerance: int) -> Numbers:
    """The largest value (N, T) within some steps of each."""
    padded = np.pad(values, ((0, 0), (tolerance, tolerance)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * tolerance + 1, 1)
    return np.asarray(windows.max(-1))


def roc_auc(truth: ArrayLike, score: ArrayLike) -> float:
    """How often an event has a higher score than no event; NaN unless there are both."""
    happened = np.asarray(truth, bool)
    events, rest = int(happened.sum()), int((~happened).sum())
    if not events or not rest:
        return np.nan
    ranks = rank(score)
    return float((ranks[happened].sum() - events * (events + 1) / 2) / (events * rest))


def rank(values: ArrayLike) -> Numbers:
    """Ranks from 1 on; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])


def brier(truth: ArrayLike, probability: ArrayLike) -> float:
    """The mean squared error of probabilities; b·(1 − b) for one that always says the base rate."""
    return float(np.square(np.asarray(probability) - np.asarray(truth, np.float64)).mean())


@dataclass(frozen=True)
class Reliability:
    """How often events happen among predictions of about the same probability; empty bins NaN."""

    edges: Numbers  # (B+1,)
    count: NDArray[np.int64]  # (B,)
    predicted: Numbers  # (B,), the mean probability
    observed: Numbers  # (B,), the share of events

    @property
    def error(self) -> float:
        """The expected calibration error: the gap between both, averaged over predictions."""
        gaps = np.abs(self.predicted - self.observed)[self.count > 0]
        return float((gaps * self.count[self.count > 0]).sum() / self.count.sum())


def reliability(truth: ArrayLike, probability: ArrayLike, bins: int = BINS) -> Reliability:
    """Predictions by probability, in bins of equal width."""
    expected = np.asarray(probability, np.float64)
    happened = np.asarray(truth, np.float64)
    edges = np.linspace(0, 1, bins + 1)
    index = np.clip((expected * bins).astype(np.int64), 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(index, expected, bins) / count
        observed = np.bincount(index, happened, bins) / count
    return Reliability(edges, count, predicted, observed)
