"""The first section: the verdict in words, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.viz.evaluation.grades import Finding, Grade
from wmtk.viz.evaluation.interval_text import format_interval
from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.evaluation.verdict import verdict
from wmtk.viz.html_report.about import About
from wmtk.viz.html_report.markup import Markup, Section, element, joined, paragraph, tile
from wmtk.viz.metrics import Estimate

MARKS = {Grade.GOOD: "✓", Grade.DOUBTFUL: "?", Grade.BAD: "!"}


def summary(found: ModelMetrics, about: About) -> Section:
    judged = verdict(found)
    plural = "episode" if found.episodes == 1 else "episodes"
    looked = (
        f"Update {about.update:,} of {about.name} on {about.dataset.path.name}: {found.windows} "
        f"windows of {found.episodes} {plural} ({about.held_out}). In each, the model saw "
        f"{found.context} rows, then imagined {found.horizon} more with the recorded actions, "
        f"{found.samples} times over."
    )
    content = joined(
        element(
            "p", judged.headline, class_=f"headline {judged.grade}", role="status", id="verdict"
        ),
        element("ul", *(_finding(finding) for finding in judged.findings), class_="findings"),
        paragraph(looked, soft=True),
        element("div", *_tiles(found), class_="tiles"),
    )
    return Section("summary", "Summary", content)


def _finding(finding: Finding) -> Markup:
    mark = element("span", MARKS[finding.grade], class_="mark", title=finding.grade)
    return element("li", mark, finding.text, class_=finding.grade)


def _tiles(found: ModelMetrics) -> Iterator[Markup]:
    yield tile(
        "Reliable",
        str(found.reliable_steps),
        f"of {found.horizon} steps",
        f"most of what varies is right; a policy imagines {found.policy_horizon}",
    )
    yield tile(
        "Better than the baselines",
        str(found.steps_above_baselines),
        f"of {found.horizon} steps",
        "than the last observation and the average one",
    )
    returns = found.returns_policy
    quality = returns.discounted
    yield tile(
        f"Return over {returns.steps} steps, discounted",
        f"{quality.imagined.value:.2f}",
        f"predicted, {quality.true.value:.2f} true",
        f"correlation {format_interval(quality.correlation)}",
    )
    step = returns.steps
    for key, shown in found.obs.items():
        name = "PSNR" if shown.image else "SNR"
        ceiling = f"{shown.ceiling.value[step - 1]:.1f} dB from the observed row itself"
        score = f"{shown.score.value[step - 1]:.1f}"
        yield tile(f"{name} of {key}, step {step}", score, "dB", ceiling)
    best = max(found.obs.values(), key=lambda q: float(np.nan_to_num(q.actions_overall.value)))
    if not np.isnan(best.actions_overall.value):
        yield _estimated("Actions", best.actions_overall, "dB", "lost by shuffling them")
    ends = found.ends_observed
    if ends is not None and ends.terminal:
        base = f"base rate {ends.base_rate:.2g}"
        score = f"{ends.average_precision.value:.2f}"
        yield tile("Ends", score, "average precision", base)
    if found.codes is not None:
        dead = f"{int(found.codes.dead.sum()):,} of {found.codes.dead.size:,} classes"
        yield tile("Dead codes", f"{found.codes.dead_share:.0%}", "", dead)
    yield _estimated("KL", found.kl, "nats a step", "what seeing a frame adds")


def _estimated(name: str, found: Estimate, unit: str, note: str) -> Markup:
    interval = format_interval(found).partition(" ")[2]
    return tile(name, f"{found.value:.2f}", unit, f"{note} {interval}".strip())
