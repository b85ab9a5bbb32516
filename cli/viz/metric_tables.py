"""How the results of `wmtk viz metrics` look on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wmtk.cli.common.verdict_text import verdict_text
from wmtk.viz.interval_text import RETURN_COLUMNS, format_interval, format_margin, return_rows

if TYPE_CHECKING:
    from wmtk.cli.viz.metrics_command import MetricsReport
    from wmtk.viz.evaluation.model_metrics import Factor, ModelMetrics
    from wmtk.viz.evaluation.obs_quality import ObsQuality
    from wmtk.viz.metrics import EndingQuality, Estimate, RewardQuality

STEPS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 100, 200, 500)
COLUMNS = 6  # which fit into a terminal of 80 columns


def render(report: MetricsReport) -> RenderableType:
    found = report.metrics
    parts: list[RenderableType] = [Text(report.description), "", *verdict_text(report.verdict), ""]
    for key, quality in found.obs.items():
        parts += [_horizon_table(key, quality, found), ""]
    parts += [_heads(found), "", _returns(found), "", _states(found), ""]
    if found.factors:
        parts += [_factor_table(found), ""]
    parts += _explanations(report)
    return Group(*parts)


def shown_steps(horizon: int) -> list[int]:
    """Some steps of a horizon, with the first and the last."""
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


def _horizon_table(key: str, quality: ObsQuality, found: ModelMetrics) -> Table:
    """The metrics of one observation key at some steps."""
    steps = shown_steps(found.horizon)
    table = _table(f"{key}, at step", *(str(step) for step in steps))
    name = "PSNR" if quality.image else "SNR"
    rows: list[tuple[str, Estimate, int]] = [
        (f"{name}, dB", quality.score, 1),
        (f"  best of {found.samples}", quality.best, 1),
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


def _heads(found: ModelMetrics) -> Table:
    """Rewards and ends, read off what is seen and imagined."""
    table = _table("", "seen", "imagined")
    pairs = zip(
        _reward_rows(found.reward_observed), _reward_rows(found.reward_imagined), strict=True
    )
    for (name, seen), (_, imagined) in pairs:
        if (seen, imagined) != ("-", "-"):
            table.add_row(name, seen, imagined)
    if found.ends_observed is not None and found.ends_imagined is not None:
        ends = zip(_end_rows(found.ends_observed), _end_rows(found.ends_imagined), strict=True)
        for (name, seen), (_, imagined) in ends:
            table.add_row(name, seen, imagined)
    return table


def _returns(found: ModelMetrics) -> Table:
    """The returns of imagined steps."""
    table = _table(*RETURN_COLUMNS)
    for row in return_rows(found.returns_policy, found.returns):
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
        yield "  size of predictions, 1 fits", size


def _end_rows(quality: EndingQuality) -> Iterator[tuple[str, str]]:
    yield "ends, average precision", format_interval(quality.average_precision)
    yield "  base rate", f"{quality.base_rate:.3f}"
    yield "  mean probability", f"{quality.expected_rate:.3f}"
    yield "ends, AUC", format_interval(quality.auc)
    yield "ends, Brier score", format_interval(quality.brier, 3)
    yield "  of always saying the base rate", f"{quality.brier_of_base_rate:.3f}"
    yield "ends, calibration error", f"{quality.calibration_error:.3f}"
    if quality.truncated:
        said = f"{quality.at_truncated:.3f} of {quality.truncated:,}"
        yield "ends, probability at time limits", said
    else:
        yield "ends, probability at time limits", "no time limit met"


def _states(found: ModelMetrics) -> Table:
    """The latents: their uncertainty, and how the codes are used."""
    table = _table("latents", "")
    table.add_row("KL, nats a step", format_interval(found.kl))
    table.add_row("entropy of the posterior", format_interval(found.entropy_posterior))
    table.add_row("entropy of the prior", format_interval(found.entropy_prior))
    codes = found.codes
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


def _factor_table(found: ModelMetrics) -> Table:
    """What of the known factors is in the states."""
    probes = list(next(iter(found.factors.values())).probes)
    table = _table("factor", *(f"from {name}" for name in probes), "most in one code, nats")
    for name, factor in found.factors.items():
        cells = [f"{factor.probes[what].score:.2f}{_chance(factor, what)}" for what in probes]
        told = "-"
        if factor.codes is not None:
            best = int(factor.codes.information.argmax())
            most = factor.codes.information[best]
            told = f"{most:.2f} of {factor.codes.entropy:.2f} (z{best})"
        table.add_row(Text(name), *cells, told)
    return table


def _chance(factor: Factor, what: str) -> str:
    probe = factor.probes[what]
    return f" (chance {probe.chance:.2f})" if probe.kind == "logistic" else ""


def _explanations(report: MetricsReport) -> Iterator[Text]:
    found = report.metrics
    images = [quality.image for quality in found.obs.values()]
    left_out = {"PSNR", "SSIM"} if not any(images) else set()
    left_out |= {"SNR"} if all(images) else set()
    for name, meaning in report.definitions.items():
        if name not in left_out:
            yield Text(f"{name}: {meaning}", style="dim")
    if found.codes is not None:
        yield Text(
            f"dead: used for less than {found.codes.threshold:.2g} of {found.codes.frames:,} "
            "frames; information: H(marginal) − mean H(posterior)",
            style="dim",
        )
    if found.factors:
        yield Text(
            "factor: R² or accuracy of linear probes on other episodes; nats beyond chance",
            style="dim",
        )
    yield Text(
        f"{found.samples} futures with {found.latents} latents; ± is half of the "
        f"{found.confidence:.0%} interval, a bootstrap over {found.episodes} episodes with "
        f"{found.resamples:,} resamples, seed {report.seed}",
        style="dim",
    )
