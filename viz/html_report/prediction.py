"""How good predictions are at each step: curves beside the simple guesses."""

from __future__ import annotations

from collections.abc import Iterator

from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.evaluation.obs_quality import MOSTLY, ObsQuality
from wmtk.viz.html_report.charts import Chart, curve, figures
from wmtk.viz.html_report.markup import Section, element, joined, paragraph
from wmtk.viz.metrics import Usable

STEP = "step"


def prediction(found: ModelMetrics) -> Section:
    bands = (
        f"Bands are {found.confidence:.0%} intervals, a bootstrap over {found.episodes} episodes."
        if found.episodes > 1
        else "With one episode there are no intervals."
    )
    text = (
        "Each chart runs over the steps that the model imagines after the last frame that it saw. "
        f"{bands} Point at a chart, or focus it and use the arrow keys, to read its numbers; "
        "names hide and show their curves."
    )
    parts: list[str] = [paragraph(text, soft=True)]
    for key, quality in found.obs.items():
        parts += [element("h3", key), figures(_charts(quality, found))]
    return Section("prediction", "Predictions by step", joined(*parts))


def _charts(quality: ObsQuality, found: ModelMetrics) -> Iterator[Chart]:
    """Skill first, then the numbers that it is made of."""
    unit, what = ("frame", "moves") if quality.image else ("row", "changes")
    usable, right = _extent(quality.above_copy, "0"), _extent(quality.reliable, "½")
    score = "PSNR" if quality.image else "SNR"
    common = {"group": "horizon", "whole": True}
    yield Chart(
        f"Skill: better than the last {unit}?",
        STEP,
        "skill",
        [curve("model", "model", quality.skill)],
        f"1 is perfect; 0 is as good as repeating the last {unit} that was seen.",
        "skill",
        zero=True,
        extents=usable,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        f"Informed: better than the average {unit}?",
        STEP,
        "share explained",
        [curve("model", "model", quality.informed)],
        "How much of what varies the mean of the futures has right.",
        "informed",
        zero=True,
        rules=[(MOSTLY, "one half")],
        extents=right,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        f"{score}: how exact?",
        STEP,
        "dB",
        [
            curve("model", "model", quality.score),
            curve(f"best of {found.samples}", "best", quality.best, hidden=found.samples < 2),
            curve("if seen", "ceiling", quality.ceiling, dashed=True, band=False),
            curve(f"last {unit}", "copy", quality.copy, dashed=True, band=False),
            curve(f"average {unit}", "average", quality.average, dashed=True, band=False),
        ],
        "Higher is better. The model cannot do better than when it sees the row itself.",
        score,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        "SSIM: as it looks",
        STEP,
        "SSIM",
        [
            curve("model", "model", quality.ssim),
            curve("if seen", "ceiling", quality.ssim_ceiling, dashed=True, band=False),
        ],
        "Structural similarity to the true frame; 1 is equality.",
        "SSIM",
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        f"What {what}",
        STEP,
        "skill",
        [curve("model", "model", quality.moving)],
        f"Skill on what differs from the last {unit} seen, where small things count.",
        "moving",
        zero=True,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        "Do actions matter?",
        STEP,
        "dB",
        [curve("lost with other actions", "model", quality.actions)],
        "What predictions lose with the actions of other windows; at 0, actions are ignored.",
        "actions",
        zero=True,
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        "Is it as sure as it should be?",
        STEP,
        "ratio",
        [curve("spread / error", "model", quality.spread_skill)],
        "How far its futures differ, for the error of their mean. Below 1 it is too sure.",
        "spread/skill",
        rules=[(1.0, "fits")],
        **common,  # type: ignore[arg-type]
    )
    yield Chart(
        f"How much {what}",
        STEP,
        "share",
        [curve("recorded", "recorded", quality.moving_share)],
        f"The share of the observation that differs from the last {unit} seen.",
        zero=True,
        **common,  # type: ignore[arg-type]
    )


def _extent(found: Usable, floor: str) -> list[tuple[float, str]]:
    """The steps up to which the interval stays above something."""
    return [(float(found.last), f"surely above {floor} to {found.last}")] if found.last else []
