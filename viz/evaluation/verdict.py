"""The verdict on a world model: whether it is good enough to train a policy in it.

The commands, the report and the live page all show this verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wmtk.viz.evaluation.findings import end_findings, return_findings, reward_findings
from wmtk.viz.evaluation.grades import Finding, Grade, count, worst
from wmtk.viz.evaluation.model_metrics import ModelMetrics
from wmtk.viz.evaluation.obs_quality import ObsQuality

LEAST_EXPLAINED = 0.3  # share of what varies; reconstructions that explain less are wrong
INSENSITIVE = 0.05  # dB lost with shuffled actions; less means that actions are ignored
COLLAPSED = 0.1  # nats that all codes together carry about an observation
LITTLE_INFORMATION = 1.0  # nats; less does not distinguish three observations
MANY_DEAD = 0.5  # of all classes
FEW_EPISODES = 8  # with fewer, bootstrap intervals are too narrow
MOST_NAMED = 3  # problems in the headline

HEADLINES = {
    Grade.GOOD: "Good for training a policy",
    Grade.DOUBTFUL: "Doubtful for training a policy",
    Grade.BAD: "Bad for training a policy",
}


@dataclass(frozen=True)
class Verdict:
    """The grade of a model: the worst grade among the findings that have a problem."""

    grade: Grade
    headline: str
    findings: list[Finding]  # the most important first


def verdict(metrics: ModelMetrics) -> Verdict:
    """Judge a model by its metrics."""
    findings = [
        _horizon(metrics),
        *return_findings(metrics),
        *_reconstructions(metrics),
        *_actions(metrics),
        *reward_findings(metrics),
        *end_findings(metrics),
        *_latents(metrics),
        *_episodes(metrics),
    ]
    grade = worst(finding.grade for finding in findings if finding.problem)
    problems = [f.problem for f in findings if f.problem and f.grade == grade]
    why = problems[:MOST_NAMED]
    if len(problems) > MOST_NAMED:
        why.append(f"{len(problems) - MOST_NAMED} more")
    if grade == Grade.GOOD:
        why = [f"reliable over the {count(metrics.policy_horizon, 'step')} that it imagines"]
    return Verdict(grade, f"{HEADLINES[grade]}: {'; '.join(why)}.", findings)


def _horizon(metrics: ModelMetrics) -> Finding:
    """The number of reliable steps, compared with the imagination horizon of a policy."""
    steps, usable, horizon, policy_horizon = (
        *(metrics.reliable_steps, metrics.steps_above_baselines),
        *(metrics.horizon, metrics.policy_horizon),
    )
    tested = ", the longest horizon tested"
    if not usable:
        return Finding(
            "Not reliable for a single step: predictions are no better than the last observation "
            "or the average one.",
            Grade.BAD,
            "not reliable for a single step",
        )
    better = f"better than the baselines up to {usable}{tested if usable >= horizon else ''}"
    if not steps:
        return Finding(
            f"Not reliable for a single step: {better}, but less than half of what varies is "
            "predicted.",
            Grade.BAD,
            "not reliable for a single step",
        )
    about = "" if steps >= horizon else "about "
    parts = [f"Reliable for {about}{count(steps, 'step')}{tested if steps >= horizon else ''}"]
    if steps < policy_horizon:
        parts[0] += f", where a policy imagines {policy_horizon}"
    if usable > steps:
        parts.append(better)
    first = max(quality.above_copy.first for quality in metrics.obs.values())
    if first > 1:
        parts.append(f"before step {first}, the last observation is a better prediction")
    grade = Grade.GOOD
    if steps < policy_horizon:
        bad = 2 * steps < policy_horizon and usable < min(policy_horizon, horizon)
        grade = Grade.BAD if bad else Grade.DOUBTFUL
    problem = f"reliable for {steps} of the {count(policy_horizon, 'step')} that it imagines"
    return Finding(f"{'; '.join(parts)}.", grade, problem if steps < policy_horizon else "")


def _reconstructions(metrics: ModelMetrics) -> Iterator[Finding]:
    for key, quality in metrics.obs.items():
        if quality.informed_ceiling.value < LEAST_EXPLAINED:
            share = max(0.0, float(quality.informed_ceiling.value))
            yield Finding(
                f"Reconstructions of {key} explain {share:.0%} of what varies: the latent states "
                "do not encode it, or the decoder does not decode it.",
                Grade.BAD,
                f"reconstructions of {key} are wrong",
            )


def ignores_actions(quality: ObsQuality) -> bool:
    """Whether predictions with shuffled actions are as good."""
    gain = quality.actions_overall
    return bool(gain.value < INSENSITIVE or gain.low <= 0)


def _actions(metrics: ModelMetrics) -> list[Finding]:
    qualities = [q for q in metrics.obs.values() if not np.isnan(q.actions_overall.value)]
    if not qualities:
        return []
    best = max(qualities, key=lambda q: float(q.actions_overall.value))
    gain = best.actions_overall
    costs = f"shuffling them costs {gain.value:.2g} dB"
    if not all(ignores_actions(quality) for quality in qualities):
        return [Finding(f"Predictions depend on the actions: {costs}.", Grade.GOOD)]
    problem = "predictions ignore the actions"
    if gain.value < INSENSITIVE:
        return [Finding(f"Predictions hardly depend on the actions: {costs}.", Grade.BAD, problem)]
    text = (
        f"Predictions may not depend on the actions: {costs} ({gain.low:.2g} to {gain.high:.2g})."
    )
    return [Finding(text, Grade.DOUBTFUL, "predictions may ignore the actions")]


def _latents(metrics: ModelMetrics) -> Iterator[Finding]:
    collapsed = "the posterior has collapsed"
    if metrics.codes is None:
        if metrics.kl.value < COLLAPSED:
            yield Finding(
                f"The posterior hardly differs from the prior (KL {metrics.kl.value:.2g} nats): it "
                "has collapsed, unless the task is deterministic.",
                Grade.DOUBTFUL,
                collapsed,
            )
        return
    information = float(metrics.codes.information.sum())
    if information < COLLAPSED:
        text = (
            f"The posterior has collapsed: all codes carry {information:.2g} nats about the "
            "observation."
        )
        yield Finding(text, Grade.BAD, collapsed)
        return
    dead, each = metrics.codes.dead_share, information / len(metrics.codes.usage)
    yield Finding(
        f"{dead:.0%} of the codes are dead; each variable carries {each:.2g} nats about the "
        "observation.",
        Grade.DOUBTFUL if dead >= MANY_DEAD or information < LITTLE_INFORMATION else Grade.GOOD,
    )


def _episodes(metrics: ModelMetrics) -> Iterator[Finding]:
    if metrics.episodes < FEW_EPISODES:
        few = f"only {count(metrics.episodes, 'episode')}"
        what = "there are no intervals" if metrics.episodes == 1 else "the intervals are too narrow"
        yield Finding(f"{few.capitalize()} measured: {what}.", Grade.DOUBTFUL, f"{few} measured")
