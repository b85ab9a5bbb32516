"""Predictions of rewards and ends: quality and calibration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from wmtk.viz.evaluation.interval_text import RETURN_COLUMNS, format_interval, return_rows
from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.html_report.calibration import Binned, HeadCalibration
from wmtk.viz.html_report.charts import Chart, Series, curve, figures
from wmtk.viz.html_report.markup import Section, element, joined, paragraph, table
from wmtk.viz.metrics import EndingQuality, Estimate, RewardQuality

HEAD = ("", "observed", "imagined")
Row = tuple[str, str]


def heads_section(metrics: ModelMetrics, calibration: HeadCalibration) -> Section:
    text = (
        "Rewards and ends predicted from observed (posterior) states and from imagined states. A "
        "predictor without information reaches an average precision equal to the base rate."
    )
    observed, imagined = metrics.reward_observed, metrics.reward_imagined
    parts = [
        paragraph(text, soft=True),
        element("h3", "Rewards"),
        table(_paired(_reward_rows(observed), _reward_rows(imagined)), HEAD, 2),
        table(return_rows(metrics.returns_policy, metrics.returns), RETURN_COLUMNS, 3),
        figures(_reward_charts(metrics, calibration)),
        element("h3", "Ends"),
    ]
    if metrics.ends_observed is None or metrics.ends_imagined is None:
        parts.append(paragraph("The model does not predict the end of the task."))
    else:
        ends = (metrics.ends_observed, metrics.ends_imagined)
        parts.append(table(_paired(*map(_end_rows, ends)), HEAD, 2))
        parts.append(figures(_end_charts(*ends, calibration)))
    return Section("heads", "Rewards and ends", joined(*parts))


def _paired(observed: Iterator[Row], imagined: Iterator[Row]) -> Iterator[tuple[str, str, str]]:
    """Rows of both tables with the same name, without rows that are empty in both."""
    for (name, left), (_, right) in zip(observed, imagined, strict=True):
        if (left, right) != ("-", "-"):
            yield name, left, right


def _reward_rows(quality: RewardQuality) -> Iterator[Row]:
    yield "R²", format_interval(quality.r_squared)
    yield "Correlation", format_interval(quality.correlation)
    for name, events in (("Positive", quality.positive), ("Negative", quality.negative)):
        precise = "-" if events is None else format_interval(events.average_precision)
        near = "-" if events is None else format_interval(events.with_tolerance)
        base = "-" if events is None else f"{events.base_rate:.3f}"
        yield f"{name} rewards, average precision", precise
        yield f"{name} rewards, within {events.tolerance if events else 1} step", near
        yield f"{name} rewards, base rate", base


def _reward_charts(metrics: ModelMetrics, calibration: HeadCalibration) -> Iterator[Chart]:
    steps = {"group": "horizon", "integers": True}
    yield Chart(
        "Mean reward by step",
        "step",
        "mean reward",
        [
            curve("true", "recorded", calibration.reward_true_at),
            curve("imagined", "model", calibration.reward_imagined_at),
        ],
        "Mean over windows. A model that drifts predicts too many or too few rewards.",
        zero=True,
        **steps,  # type: ignore[arg-type]
    )
    yield Chart(
        "Error of the reward",
        "step",
        "mean absolute error",
        [curve("imagined", "model", metrics.reward_imagined.error)],
        "By step after the last observed row.",
        zero=True,
        **steps,  # type: ignore[arg-type]
    )
    yield Chart(
        "Calibration of rewards",
        "predicted reward",
        "mean true reward",
        [
            _binned_series("observed", "ceiling", calibration.reward_observed),
            _binned_series("imagined", "model", calibration.reward_imagined),
        ],
        "On the dotted line, true rewards equal predicted ones. Larger points are more steps.",
        "calibration",
        kind="points",
        diagonal=True,
    )
    values = np.asarray(metrics.reward_imagined.correlation_at, np.float64)
    unknown = np.full_like(values, np.nan)
    yield Chart(
        "Correlation with the true reward",
        "step",
        "correlation",
        [curve("imagined", "model", Estimate(values, unknown, unknown))],
        "Over windows; undefined at steps where the reward is constant.",
        zero=True,
        **steps,  # type: ignore[arg-type]
    )


def _binned_series(name: str, color: str, bins: Binned) -> Series:
    return _weighted_series(name, color, bins.predicted, bins.observed, bins.count)


def _weighted_series(name: str, color: str, x: ArrayLike, y: ArrayLike, count: ArrayLike) -> Series:
    sizes = np.asarray(count, np.float64)
    return Series(
        name,
        color,
        np.asarray(x, np.float64).tolist(),
        np.asarray(y, np.float64).tolist(),
        weight=(sizes / sizes.max()).tolist(),
        notes=[f"{int(n):,} steps" for n in sizes],
    )


def _end_rows(quality: EndingQuality) -> Iterator[Row]:
    yield "Average precision", format_interval(quality.average_precision)
    yield "Base rate", f"{quality.base_rate:.4f}"
    yield "Mean probability", f"{quality.expected_rate:.4f}"
    yield "Area under the ROC curve", format_interval(quality.auc)
    yield "Brier score", format_interval(quality.brier, 4)
    yield "Brier score of predicting the base rate", f"{quality.brier_of_base_rate:.4f}"
    yield "Calibration error", f"{quality.calibration_error:.4f}"
    probability = f"{quality.at_truncated:.3f} of {quality.truncated:,}"
    yield "Mean probability at time limits", probability if quality.truncated else "-"


def _end_charts(
    observed: EndingQuality, imagined: EndingQuality, calibration: HeadCalibration
) -> Iterator[Chart]:
    series = []
    for name, color, quality in (
        ("observed", "ceiling", observed),
        ("imagined", "model", imagined),
    ):
        bins = quality.reliability
        filled = bins.count > 0
        values = (bins.predicted[filled], bins.observed[filled], bins.count[filled])
        series.append(_weighted_series(name, color, *values))
    yield Chart(
        "Calibration of ends",
        "predicted probability",
        "observed frequency",
        series,
        "On the dotted line, ends are as frequent as predicted. Larger points are more steps.",
        "calibration",
        kind="points",
        x_range=(0.0, 1.0),
        diagonal=True,
        zero=True,
    )
    if calibration.end_imagined_at is not None:
        yield Chart(
            "Ends by step",
            "step",
            "share of windows",
            [
                curve("true", "recorded", calibration.end_true_at),
                curve("imagined", "model", calibration.end_imagined_at),
            ],
            "The share of windows that end at each step, and the mean predicted probability.",
            group="horizon",
            integers=True,
            zero=True,
        )
