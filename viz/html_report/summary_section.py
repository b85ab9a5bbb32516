"""The summary: the verdict and the most important metrics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.viz.evaluation.grades import Finding, Grade, count
from wmtk.viz.evaluation.interval_text import format_interval
from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.evaluation.verdict import verdict
from wmtk.viz.html_report.markup import Markup, Section, element, joined, paragraph, tile
from wmtk.viz.html_report.report_info import ReportInfo
from wmtk.viz.metrics import Estimate

MARKS = {Grade.GOOD: "✓", Grade.DOUBTFUL: "?", Grade.BAD: "!"}


def summary_section(metrics: ModelMetrics, info: ReportInfo) -> Section:
    result = verdict(metrics)
    data = (
        f"Update {info.update:,} of {info.name}, evaluated on {info.dataset.path.name}: "
        f"{count(metrics.windows, 'window')} of {count(metrics.episodes, 'episode')} "
        f"({info.held_out}). In each window the model observes {count(metrics.context, 'row')} and "
        f"predicts the next {count(metrics.horizon, 'row')} in open loop with the recorded "
        f"actions, in {count(metrics.samples, 'sampled future')}."
    )
    content = joined(
        element(
            "p", result.headline, class_=f"headline {result.grade}", role="status", id="verdict"
        ),
        element("ul", *(_finding(finding) for finding in result.findings), class_="findings"),
        paragraph(data, soft=True),
        element("div", *_tiles(metrics), class_="tiles"),
    )
    return Section("summary", "Summary", content)


def _finding(finding: Finding) -> Markup:
    mark = element("span", MARKS[finding.grade], class_="mark", title=finding.grade)
    return element("li", mark, finding.text, class_=finding.grade)


def _tiles(metrics: ModelMetrics) -> Iterator[Markup]:
    yield tile(
        "Reliable predictions",
        str(metrics.reliable_steps),
        f"of {metrics.horizon} steps",
        "more than half of the variance is predicted; a policy imagines "
        f"{count(metrics.policy_horizon, 'step')}",
    )
    yield tile(
        "Better than the baselines",
        str(metrics.steps_above_baselines),
        f"of {metrics.horizon} steps",
        "the last observed row and the mean row",
    )
    returns = metrics.returns_policy
    quality = returns.discounted
    yield tile(
        f"Return over {count(returns.steps, 'step')}, discounted",
        f"{quality.imagined.value:.2f}",
        f"predicted, {quality.true.value:.2f} true",
        f"correlation {format_interval(quality.correlation)}",
    )
    step = returns.steps
    for key, obs in metrics.obs.items():
        name = "PSNR" if obs.image else "SNR"
        ceiling = f"{obs.ceiling.value[step - 1]:.1f} dB for the reconstruction of the same row"
        yield tile(
            f"{name} of {key}, step {step}", f"{obs.score.value[step - 1]:.1f}", "dB", ceiling
        )
    best = max(metrics.obs.values(), key=lambda q: float(np.nan_to_num(q.actions_overall.value)))
    if not np.isnan(best.actions_overall.value):
        yield _estimate_tile("Effect of actions", best.actions_overall, "dB", "lost by shuffling")
    ends = metrics.ends_observed
    if ends is not None and ends.terminal:
        base = f"base rate {ends.base_rate:.2g}"
        score = f"{ends.average_precision.value:.2f}"
        yield tile("Ends", score, "average precision", base)
    if metrics.codes is not None:
        dead = f"{int(metrics.codes.dead.sum()):,} of {metrics.codes.dead.size:,} classes"
        yield tile("Dead codes", f"{metrics.codes.dead_share:.0%}", "", dead)
    yield _estimate_tile("KL", metrics.kl, "nats per step", "of the posterior from the prior")


def _estimate_tile(name: str, estimate: Estimate, unit: str, note: str) -> Markup:
    value, _, interval = format_interval(estimate).partition(" ")
    return tile(name, value, unit, f"{note} {interval}".strip())
