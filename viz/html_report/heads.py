"""Rewards and ends: how well they are foreseen, and whether they are as frequent as expected."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.viz.evaluation.interval_text import RETURN_COLUMNS, format_interval, return_rows
from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.html_report.calibration import Binned, HeadCalibration
from wmtk.viz.html_report.charts import Chart, Series, curve, figures
from wmtk.viz.html_report.markup import Section, element, joined, paragraph, table
from wmtk.viz.metrics import EndingQuality, Estimate, RewardQuality


def heads(found: ModelMetrics, calibration: HeadCalibration) -> Section:
    text = (
        "Read off states that saw the row, and off states that were imagined. Average precision "
        "stands beside the base rate, which is what knowing nothing would reach."
    )
    parts = [
        paragraph(text, soft=True),
        element("h3", "Rewards"),
        table(_reward_rows(found), ("", "seen", "imagined"), 2),
        table(return_rows(found.returns_policy, found.returns), RETURN_COLUMNS, 3),
        figures(_reward_charts(found, calibration)),
        element("h3", "Ends"),
    ]
    if found.ends_observed is None or found.ends_imagined is None:
        parts.append(paragraph("This model does not learn when a task ends."))
    else:
        rows = _pairs(_end_rows(found.ends_observed), _end_rows(found.ends_imagined))
        parts.append(table(rows, ("", "seen", "imagined"), 2))
        parts.append(figures(_end_charts(found.ends_observed, found.ends_imagined, calibration)))
    return Section("heads", "Rewards and ends", joined(*parts))


Row = tuple[str, str]


def _pairs(seen: Iterator[Row], imagined: Iterator[Row]) -> Iterator[tuple[str, str, str]]:
    """The same rows of two kinds, without those that say nothing."""
    for (name, one), (_, other) in zip(seen, imagined, strict=True):
        if (one, other) != ("-", "-"):
            yield name, one, other


def _reward_rows(found: ModelMetrics) -> Iterator[tuple[str, str, str]]:
    yield from _pairs(_rewards(found.reward_observed), _rewards(found.reward_imagined))


def _rewards(quality: RewardQuality) -> Iterator[Row]:
    yield "R²", format_interval(quality.r_squared)
    yield "Correlation", format_interval(quality.correlation)
    for name, events in (("Positive", quality.positive), ("Negative", quality.negative)):
        precise = "-" if events is None else format_interval(events.average_precision)
        near = "-" if events is None else format_interval(events.with_tolerance)
        base = "-" if events is None else f"{events.base_rate:.3f}"
        yield f"{name} rewards, average precision", precise
        yield f"{name} rewards, within {events.tolerance if events else 1} step", near
        yield f"{name} rewards, base rate", base


def _reward_charts(found: ModelMetrics, calibration: HeadCalibration) -> Iterator[Chart]:
    steps = {"group": "horizon", "whole": True}
    yield Chart(
        "Reward at each step",
        "step",
        "mean reward",
        [
            curve("true", "recorded", calibration.reward_true_at),
            curve("imagined", "model", calibration.reward_imagined_at),
        ],
        "The mean over windows: a model that drifts makes up rewards, or forgets them.",
        zero=True,
        **steps,  # type: ignore[arg-type]
    )
    yield Chart(
        "Error of the reward",
        "step",
        "mean absolute error",
        [curve("imagined", "model", found.reward_imagined.error)],
        "By step after the last row that was seen.",
        zero=True,
        **steps,  # type: ignore[arg-type]
    )
    yield Chart(
        "Reward as large as predicted?",
        "predicted",
        "mean of what came",
        [
            _points("seen", "ceiling", calibration.reward_observed),
            _points("imagined", "model", calibration.reward_imagined),
        ],
        "On the dotted line, rewards are as large as predicted. Larger points are more steps.",
        "calibration",
        kind="points",
        diagonal=True,
    )
    numbers = np.asarray(found.reward_imagined.correlation_at, np.float64)
    yield Chart(
        "Correlation with the true reward",
        "step",
        "correlation",
        [curve("imagined", "model", Estimate(numbers, numbers * np.nan, numbers * np.nan))],
        "Across windows; missing where no reward varies.",
        zero=True,
        **steps,  # type: ignore[arg-type]
    )


def _points(name: str, look: str, found: Binned) -> Series:
    return _weighted(name, look, found.predicted, found.observed, found.count)


def _weighted(name: str, look: str, x: object, y: object, count: object) -> Series:
    sizes = np.asarray(count, np.float64)
    return Series(
        name,
        look,
        np.asarray(x, np.float64).tolist(),
        np.asarray(y, np.float64).tolist(),
        weight=(sizes / sizes.max()).tolist(),
        notes=[f"{int(n):,} steps" for n in sizes],
    )


def _end_rows(quality: EndingQuality) -> Iterator[Row]:
    yield "Average precision", format_interval(quality.average_precision)
    yield "Base rate", f"{quality.base_rate:.4f}"
    yield "Expected rate", f"{quality.expected_rate:.4f}"
    yield "Area under the ROC curve", format_interval(quality.auc)
    yield "Brier score", format_interval(quality.brier, 4)
    yield "Brier score of always saying the base rate", f"{quality.brier_of_base_rate:.4f}"
    yield "Calibration error", f"{quality.calibration_error:.4f}"
    said = f"{quality.at_truncated:.3f} of {quality.truncated:,}"
    yield "Probability at time limits", said if quality.truncated else "-"


def _end_charts(
    seen: EndingQuality, imagined: EndingQuality, calibration: HeadCalibration
) -> Iterator[Chart]:
    curves = []
    for name, look, quality in (("seen", "ceiling", seen), ("imagined", "model", imagined)):
        curve_ = quality.reliability
        some = curve_.count > 0
        parts = (curve_.predicted[some], curve_.observed[some], curve_.count[some])
        curves.append(_weighted(name, look, *parts))
    yield Chart(
        "Ends as frequent as predicted?",
        "predicted probability",
        "share that ended",
        curves,
        "On the dotted line, ends are as frequent as predicted. Larger points are more steps.",
        "calibration",
        kind="points",
        span=(0.0, 1.0),
        diagonal=True,
        zero=True,
    )
    if calibration.end_imagined_at is not None:
        yield Chart(
            "Ends at each step",
            "step",
            "share of windows",
            [
                curve("true", "recorded", calibration.end_true_at),
                curve("imagined", "model", calibration.end_imagined_at),
            ],
            "How many windows end there, and how many were expected to.",
            group="horizon",
            whole=True,
            zero=True,
        )
