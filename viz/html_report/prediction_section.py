"""Quality of open-loop predictions at each step, with baselines."""

from __future__ import annotations

from collections.abc import Iterator

from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.evaluation.obs_quality import MOSTLY, ObsQuality
from wmtk.viz.html_report.charts import Chart, curve, figures
from wmtk.viz.html_report.markup import Section, element, joined, paragraph
from wmtk.viz.metrics import Usable

STEP = "step"


def prediction_section(metrics: ModelMetrics) -> Section:
    intervals = (
        f"Bands are {metrics.confidence:.0%} bootstrap intervals over {metrics.episodes} episodes."
        if metrics.episodes > 1
        else "Intervals need at least two episodes."
    )
    text = (
        "Quality of open-loop predictions over the steps after the last observed row. "
        f"{intervals} Hover over a chart, or focus it and use the arrow keys, for its values; "
        "click a name in the legend to hide or show its curve."
    )
    parts: list[str] = [paragraph(text, soft=True)]
    for key, quality in metrics.obs.items():
        parts += [element("h3", key), figures(_charts(quality, metrics))]
    return Section("prediction", "Open-loop prediction by step", joined(*parts))


def _charts(quality: ObsQuality, metrics: ModelMetrics) -> Iterator[Chart]:
    """Skill first, then the metrics that it is computed from."""
    row = "frame" if quality.image else "row"
    changing = "moving pixels" if quality.image else "changing values"
    score = "PSNR" if quality.image else "SNR"
    common = {"group": "horizon", "integers": True}
    yield Chart(
        f"Skill against the last observed {row}",
        STEP,
        "skill",
        [curve("model", "model", quality.skill)],
        f"1 is a perfect prediction, 0 is as good as repeating the last observed {row}.",
        "skill",
        zero=True,
        extents=_extent(quality.above_copy, "0"),
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        f"Skill against the mean {row}",
        STEP,
        "explained variance",
        [curve("model", "model", quality.informed)],
        "The fraction of the variance of observations that the mean of the futures explains.",
        "informed",
        zero=True,
        rules=[(MOSTLY, "one half")],
        extents=_extent(quality.reliable, "½"),
        **common,  # type: ignore[arg-type]
    )
    futures = f"best of {metrics.samples}"
    yield Chart(
        f"{score} of predictions",
        STEP,
        "dB",
        [
            curve("model", "model", quality.score),
            curve(futures, "best", quality.best, hidden=metrics.samples < 2),
            curve("reconstruction", "ceiling", quality.ceiling, dashed=True, band=False),
            curve(f"last {row}", "copy", quality.copy, dashed=True, band=False),
            curve(f"mean {row}", "average", quality.average, dashed=True, band=False),
        ],
        f"Higher is better. The reconstruction of the observed {row} is the ceiling.",
        score,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        "SSIM of predictions",
        STEP,
        "SSIM",
        [
            curve("model", "model", quality.ssim),
            curve("reconstruction", "ceiling", quality.ssim_ceiling, dashed=True, band=False),
        ],
        "Structural similarity to the true frame; 1 is equality.",
        "SSIM",
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        f"Skill on {changing}",
        STEP,
        "skill",
        [curve("model", "model", quality.moving)],
        f"Skill on {changing}, which differ from the last observed {row}: sensitive to small "
        "objects.",
        "moving",
        zero=True,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        "Effect of actions",
        STEP,
        "dB",
        [curve("loss with other actions", "model", quality.actions)],
        f"{score} lost with the actions of other windows; near 0, the model ignores actions.",
        "actions",
        zero=True,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        "Calibration of the spread",
        STEP,
        "ratio",
        [curve("spread / error", "model", quality.spread_skill)],
        "Spread of the futures / error of their mean. Below 1 the model is overconfident.",
        "spread/skill",
        rules=[(1.0, "calibrated")],
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        f"Share of {changing}",
        STEP,
        "share",
        [curve("recorded", "recorded", quality.moving_share)],
        f"The share of the recorded observation that differs from the last observed {row}.",
        zero=True,
        **common,  # type: ignore[arg-type]
    )


def _extent(usable: Usable, bound: str) -> list[tuple[float, str]]:
    """The steps up to which the interval stays above a bound."""
    last = usable.last
    return [(float(last), f"interval above {bound} up to {last}")] if last else []
