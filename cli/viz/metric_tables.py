"""The output of `wmtk viz metrics` and `wmtk viz compare` on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wmtk.cli.common.console import human_count
from wmtk.cli.common.verdict_text import verdict_text
from wmtk.viz.evaluation.interval_text import (
    RETURN_COLUMNS,
    format_interval,
    format_margin,
    return_rows,
)

if TYPE_CHECKING:
    from wmtk.viz.comparison import ModelComparison
    from wmtk.viz.evaluation.model_metrics import Factor, ModelMetrics
    from wmtk.viz.evaluation.obs_quality import ObsQuality
    from wmtk.viz.metrics import EndingQuality, Estimate, RewardQuality
    from wmtk.viz.model_evaluation import Evaluation

STEPS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 100, 200, 500)
COLUMNS = 6  # that fit into a terminal of 80 characters
OUTCOME_STYLES = {"better": "green", "worse": "bold red", "different": "yellow"}


def render(result: Evaluation) -> RenderableType:
    """The verdict, and tables of all metrics."""
    metrics = result.metrics
    parts: list[RenderableType] = [Text(result.description), "", *verdict_text(result.verdict), ""]
    for key, quality in metrics.obs.items():
        parts += [_horizon_table(key, quality, metrics), ""]
    parts += [_heads(metrics), "", _returns(metrics), "", _states(metrics), ""]
    if metrics.factors:
        parts += [_factor_table(metrics), ""]
    parts += _explanations(result)
    return Group(*parts)


def table_steps(horizon: int) -> list[int]:
    """Steps of a horizon for the columns of a table, with the first and the last."""
    steps = [step for step in STEPS if step < horizon]
    return [*steps[: COLUMNS - 1], horizon]


def _table(*columns: str) -> Table:
    table = Table(
        box=None, header_style="bold", pad_edge=False, collapse_padding=len(columns) > COLUMNS
    )
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _horizon_table(key: str, quality: ObsQuality, metrics: ModelMetrics) -> Table:
    """The metrics of one observation key at some steps."""
    steps = table_steps(metrics.horizon)
    table = _table(f"{key}, at step", *(str(step) for step in steps))
    name = "PSNR" if quality.image else "SNR"
    rows: list[tuple[str, Estimate, int]] = [
        (f"{name}, dB", quality.score, 1),
        (f"  best of {metrics.samples}", quality.best, 1),
        ("  ceiling", quality.ceiling, 1),
        ("  copy", quality.copy, 1),
        ("  average", quality.average, 1),
        ("SSIM", quality.ssim, 2),
        ("skill", quality.skill, 2),
        ("informed", quality.informed, 2),
        ("moving", quality.moving, 2),
        ("spread/skill", quality.spread_skill, 2),
        ("actions, dB", quality.actions, 1),
    ]
    for label, estimate, digits in rows:
        if not np.isnan(estimate.value).all():
            table.add_row(label, *(_cell(estimate, step - 1, digits) for step in steps))
    return table


def _cell(estimate: Estimate, index: int, digits: int) -> str:
    return format_margin(estimate.at(index), digits)


def _heads(metrics: ModelMetrics) -> Table:
    """Rewards and ends, from posterior states and from imagined ones."""
    table = _table("", "observed", "imagined")
    pairs = zip(
        _reward_rows(metrics.reward_observed), _reward_rows(metrics.reward_imagined), strict=True
    )
    for (name, observed), (_, imagined) in pairs:
        if (observed, imagined) != ("-", "-"):
            table.add_row(name, observed, imagined)
    if metrics.ends_observed is not None and metrics.ends_imagined is not None:
        ends = zip(_end_rows(metrics.ends_observed), _end_rows(metrics.ends_imagined), strict=True)
        for (name, observed), (_, imagined) in ends:
            table.add_row(name, observed, imagined)
    return table


def _returns(metrics: ModelMetrics) -> Table:
    """Returns over imagined steps."""
    table = _table(*RETURN_COLUMNS)
    for row in return_rows(metrics.returns_policy, metrics.returns):
        table.add_row(*row)
    return table


def _reward_rows(quality: RewardQuality) -> Iterator[tuple[str, str]]:
    yield "reward, R²", format_interval(quality.r_squared)
    yield "reward, correlation", format_interval(quality.correlation)
    for name, events in (("> 0", quality.positive), ("< 0", quality.negative)):
        precise, near, base, size = ["-"] * 4
        if events is not None:
            precise, near = (
                format_interval(events.average_precision),
                format_interval(events.with_tolerance),
            )
            base, size = f"{events.base_rate:.3f}", format_interval(events.size)
        yield f"rewards {name}, average precision", precise
        yield f"  within {events.tolerance if events else 1} step", near
        yield "  base rate", base
        yield "  size of predictions, ideally 1", size


def _end_rows(quality: EndingQuality) -> Iterator[tuple[str, str]]:
    yield "ends, average precision", format_interval(quality.average_precision)
    yield "  base rate", f"{quality.base_rate:.3f}"
    yield "  mean probability", f"{quality.expected_rate:.3f}"
    yield "ends, AUC", format_interval(quality.auc)
    yield "ends, Brier score", format_interval(quality.brier, 3)
    yield "  of predicting the base rate", f"{quality.brier_of_base_rate:.3f}"
    yield "ends, calibration error", f"{quality.calibration_error:.3f}"
    if quality.truncated:
        mean = f"{quality.at_truncated:.3f} of {quality.truncated:,}"
        yield "ends, probability at time limits", mean
    else:
        yield "ends, probability at time limits", "no time limits"


def _states(metrics: ModelMetrics) -> Table:
    """KL, entropies and use of the codes."""
    table = _table("latents", "")
    table.add_row("KL, nats per step", format_interval(metrics.kl))
    table.add_row("entropy of the posterior", format_interval(metrics.entropy_posterior))
    table.add_row("entropy of the prior", format_interval(metrics.entropy_prior))
    codes = metrics.codes
    if codes is not None:
        V, K = codes.usage.shape
        low, high = codes.perplexity.min(), codes.perplexity.max()
        table.add_row("variables × classes", f"{V} × {K}")
        table.add_row(
            "perplexity of a variable", f"{codes.perplexity.mean():.1f} ({low:.1f} to {high:.1f})"
        )
        table.add_row("dead classes", f"{int(codes.dead.sum())} of {V * K}")
        low, high = codes.information.min(), codes.information.max()
        table.add_row(
            "information of a variable, nats",
            f"{codes.information.mean():.2f} ({low:.2f} to {high:.2f})",
        )
    return table


def _factor_table(metrics: ModelMetrics) -> Table:
    """Probes of the known factors."""
    probes = list(next(iter(metrics.factors.values())).probes)
    table = _table("factor", *(f"from {name}" for name in probes), "most in one code, nats")
    for name, factor in metrics.factors.items():
        cells = [f"{factor.probes[what].score:.2f}{_chance(factor, what)}" for what in probes]
        information = "-"
        if factor.codes is not None:
            best = int(factor.codes.information.argmax())
            most = factor.codes.information[best]
            information = f"{most:.2f} of {factor.codes.entropy:.2f} (z{best})"
        table.add_row(Text(name), *cells, information)
    return table


def _chance(factor: Factor, what: str) -> str:
    probe = factor.probes[what]
    return f" (chance {probe.chance:.2f})" if probe.kind == "logistic" else ""


def _explanations(result: Evaluation) -> Iterator[Text]:
    metrics = result.metrics
    images = [quality.image for quality in metrics.obs.values()]
    omitted = {"PSNR", "SSIM"} if not any(images) else set()
    omitted |= {"SNR"} if all(images) else set()
    for name, meaning in result.definitions.items():
        if name not in omitted:
            yield Text(f"{name}: {meaning}", style="dim")
    if metrics.codes is not None:
        yield Text(
            f"dead: used for less than {metrics.codes.threshold:.2g} of {metrics.codes.frames:,} "
            "frames; information: H(marginal) − mean H(posterior)",
            style="dim",
        )
    if metrics.factors:
        yield Text(
            "factor: R² or accuracy of linear probes on other episodes; nats beyond chance",
            style="dim",
        )
    yield Text(
        f"{metrics.samples} futures with {metrics.latents} latents; ± is half of the "
        f"{metrics.confidence:.0%} interval, a bootstrap over "
        f"{human_count(metrics.episodes, 'episode')} with "
        f"{metrics.resamples:,} resamples, seed {result.seed}",
        style="dim",
    )


def render_comparison(result: ModelComparison) -> RenderableType:
    """The verdicts on all models, and a table of their differences."""
    verdicts: list[Text] = []
    for model in result.models:
        headline, *findings = verdict_text(model.verdict)
        verdicts += [Text.assemble((model.name, "bold"), ": ", headline), *findings, Text()]
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("", no_wrap=True)
    for model in result.models:
        table.add_column(Text(model.name), justify="right", overflow="fold")
    for model in result.models[1:]:
        named = f" of {model.name}" if len(result.models) > 2 else ""
        table.add_column(Text(f"difference{named}"), justify="right", overflow="fold")
        table.add_column("")
    empty = [""] * (2 * len(result.models) - 2)
    counts = {
        "reliable steps": [model.reliable_steps for model in result.models],
        "better than the baselines": [model.steps_above_baselines for model in result.models],
    }
    for name, steps in counts.items():
        table.add_row(name, *map(str, steps), *empty)
    for row in result.differences:
        cells: list[str | Text] = [
            "-" if np.isnan(value) else f"{value:.3g}" for value in row.values
        ]
        for number, difference in enumerate(row.differences):
            outcome = row.outcome(number)
            style = OUTCOME_STYLES.get(outcome, "dim")
            cells += [format_margin(difference), Text(outcome, style=style)]
        table.add_row(Text(row.name), *cells)
    notes = [
        f"{human_count(result.windows, 'window')} of {human_count(result.episodes, 'episode')} "
        f"({result.held_out[0]}), "
        f"{result.context} rows observed and {result.horizon} imagined, {result.samples} futures, "
        f"seed {result.seed}.",
        f"Differences are to {result.models[0].name}; ± is half of the 95% interval, a bootstrap "
        "over episodes in pairs. All numbers are means over the steps.",
        "reliable steps: more than half of the variance is predicted; the baselines are the "
        "last observation and the mean one.",
        "reward: average precision of events within 1 step or, if rewards are dense, R²; ends: "
        "average precision.",
    ]
    return Group(*verdicts, table, "", *(Text(note, style="dim") for note in notes))
