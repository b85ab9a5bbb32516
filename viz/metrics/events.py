"""Prediction of events: average precision, area under the ROC curve, calibration.

`truth` (N,) states whether an event happened; `score` or `probability` (N,) is the prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.errors import MissingDependencyError
from wmtk.stats import Numbers

Flags = NDArray[np.bool_]

BINS = 10


def optional_module(name: str) -> Any:
    """A module that comes with scikit-learn, which is optional and takes a second to import."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDependencyError("scikit-learn", "viz", "Measuring a model") from error


def average_precision(truth: ArrayLike, score: ArrayLike) -> float:
    """Σ (recall_i − recall_{i−1}) · precision_i over falling thresholds; NaN without an event.

    A constant score reaches the share of events.
    """
    happened = np.asarray(truth, bool)
    if not happened.any():
        return np.nan
    return float(optional_module("sklearn.metrics").average_precision_score(happened, score))


def tolerant_average_precision(
    truth: ArrayLike, score: ArrayLike, tolerance: int, mask: ArrayLike | None = None
) -> float:
    """Average precision over windows (N, T) of predictions up to `tolerance` steps early or late.

    At a threshold, precision is the share of alarms with an event near them, and recall the share
    of events with an alarm near them. Steps where the mask is false are ignored.
    """
    happened = np.asarray(truth, bool)
    alarm = np.asarray(score, np.float64)
    exists = np.ones(happened.shape, bool) if mask is None else np.asarray(mask, bool)
    happened = happened & exists
    alarm = np.where(exists, alarm, -np.inf)
    near = around(happened.astype(np.float64), tolerance)[exists] > 0
    highest = np.sort(around(alarm, tolerance)[happened])  # the highest alarm near each event
    if not len(highest):
        return np.nan
    order = np.argsort(-alarm[exists], kind="stable")
    level, right = alarm[exists][order], np.cumsum(near[order])
    last = np.append(np.flatnonzero(np.diff(level)), len(level) - 1)  # of each distinct level
    precision = right[last] / (last + 1)
    recall = 1 - np.searchsorted(highest, level[last], "left") / len(highest)
    return float((np.diff(recall, prepend=0) * precision).sum())


def around(values: Numbers, tolerance: int) -> Numbers:
    """The largest value (N, T) within `tolerance` steps of each."""
    padded = np.pad(values, ((0, 0), (tolerance, tolerance)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * tolerance + 1, 1)
    return np.asarray(windows.max(-1))


def roc_auc(truth: ArrayLike, score: ArrayLike) -> float:
    """The share of pairs in which an event has a higher score than a step without one.

    NaN unless there are both.
    """
    happened = np.asarray(truth, bool)
    if happened.all() or not happened.any():
        return np.nan
    return float(optional_module("sklearn.metrics").roc_auc_score(happened, score))


def brier(truth: ArrayLike, probability: ArrayLike) -> float:
    """The mean squared error of probabilities; b·(1 − b) for one that is always the base rate b."""
    happened = np.asarray(truth, bool)
    return float(
        optional_module("sklearn.metrics").brier_score_loss(happened, probability, pos_label=True)
    )


@dataclass(frozen=True)
class Reliability:
    """Share of events among predictions of about the same probability; NaN in empty bins."""

    edges: Numbers  # (B+1,)
    count: NDArray[np.int64]  # (B,)
    predicted: Numbers  # (B,), the mean probability
    observed: Numbers  # (B,), the share of events

    @property
    def error(self) -> float:
        """The expected calibration error: mean |predicted − observed| over predictions."""
        gaps = np.abs(self.predicted - self.observed)[self.count > 0]
        return float((gaps * self.count[self.count > 0]).sum() / self.count.sum())


def reliability(truth: ArrayLike, probability: ArrayLike, bins: int = BINS) -> Reliability:
    """Predictions in bins of equal width, with counts, which scikit-learn does not return."""
    expected, happened = (np.asarray(x, np.float64) for x in (probability, truth))
    edges = np.linspace(0, 1, bins + 1)
    index = np.clip((expected * bins).astype(np.int64), 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        predicted = np.bincount(index, expected, bins) / count
        observed = np.bincount(index, happened, bins) / count
    return Reliability(edges, count, predicted, observed)
