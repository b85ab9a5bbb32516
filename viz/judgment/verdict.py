"""A verdict on a world model: whether a policy can be trained in it, and why not.

All commands, the report and the live page show what `verdict` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wmtk.viz.evaluation import Evaluation, ObsQuality
from wmtk.viz.judgment.grades import Finding, Grade, count, worst
from wmtk.viz.judgment.head_findings import end_findings, reward_findings
from wmtk.viz.judgment.return_findings import return_findings

BLIND = 0.3  # the least share of what varies that reconstructions explain
INSENSITIVE = 0.05  # dB
COLLAPSED = 0.1  # nats that all codes together carry about an observation
LITTLE = 1.0  # nats; more is needed to tell three observations apart
MANY_DEAD = 0.5  # of all classes
FEW_EPISODES = 8  # of which a bootstrap makes intervals that are too narrow
NAMED = 3  # problems in the headline, at most

HEADLINES = {
    Grade.GOOD: "Good for training a policy",
    Grade.DOUBTFUL: "Doubtful for training a policy",
    Grade.BAD: "Bad for training a policy",
}


@dataclass(frozen=True)
class Verdict:
    """The grade of a model is the worst of the findings that a policy relies on."""

    grade: Grade
    headline: str
    findings: list[Finding]  # the most important first


def verdict(found: Evaluation) -> Verdict:
    """What to know before relying on a model."""
    findings = [
        _horizon(found),
        *return_findings(found),
        *(_blindness(key, quality) for key, quality in found.obs.items() if is_blind(quality)),
        *_actions(found),
        *reward_findings(found),
        *end_findings(found),
        *_latents(found),
        *_episodes(found),
    ]
    grade = worst(finding.grade for finding in findings if finding.problem)
    problems = [f.problem for f in findings if f.problem and f.grade == grade]
    why = problems[:NAMED]
    if len(problems) > NAMED:
        why.append(f"{len(problems) - NAMED} more")
    if grade == Grade.GOOD:
        why = [f"reliable over the {count(found.policy_horizon, 'step')} that it imagines"]
    return Verdict(grade, f"{HEADLINES[grade]}: {'; '.join(why)}.", findings)


def _horizon(found: Evaluation) -> Finding:
    """How far predictions are reliable, for the steps that a policy imagines."""
    steps, usable, horizon, wanted = (
        *(found.trusted, found.usable),
        *(found.horizon, found.policy_horizon),
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
    if steps < wanted:
        parts[0] += f", where a policy imagines {wanted}"
    if usable > steps:
        parts.append(better)
    first = max(quality.usable.first for quality in found.obs.values())
    if first > 1:
        parts.append(f"before step {first}, the last observation is a better prediction")
    grade = Grade.GOOD
    if steps < wanted:
        grade = (
            Grade.BAD if 2 * steps < wanted and usable < min(wanted, horizon) else Grade.DOUBTFUL
        )
    problem = f"reliable for {steps} of the {count(wanted, 'step')} that it imagines"
    return Finding(f"{'; '.join(parts)}.", grade, problem if steps < wanted else "")


def is_blind(quality: ObsQuality) -> bool:
    """Whether reconstructions show little of what sets observations apart."""
    return bool(quality.informed_ceiling.value < BLIND)


def _blindness(key: str, quality: ObsQuality) -> Finding:
    share = max(0.0, float(quality.informed_ceiling.value))
    return Finding(
        f"Reconstructions of {key} explain {share:.0%} of what varies: the states do not hold what "
        "is observed, or the decoder does not show it.",
        Grade.BAD,
        f"reconstructions of {key} are wrong",
    )


def ignores_actions(quality: ObsQuality) -> bool:
    """Whether predictions are as good with other actions."""
    gain = quality.actions_overall
    return bool(gain.value < INSENSITIVE or gain.low <= 0)


def _actions(found: Evaluation) -> list[Finding]:
    known = [q for q in found.obs.values() if not np.isnan(q.actions_overall.value)]
    if not known:
        return []
    best = max(known, key=lambda q: float(q.actions_overall.value))
    gain = best.actions_overall
    costs = f"shuffling them costs {gain.value:.2g} dB"
    if not all(ignores_actions(quality) for quality in known):
        return [Finding(f"Predictions depend on the actions: {costs}.", Grade.GOOD)]
    problem = "predictions ignore the actions"
    if gain.value < INSENSITIVE:
        return [Finding(f"Predictions hardly depend on the actions: {costs}.", Grade.BAD, problem)]
    text = (
        f"Predictions may not depend on the actions: {costs} ({gain.low:.2g} to {gain.high:.2g})."
    )
    return [Finding(text, Grade.DOUBTFUL, "predictions may ignore the actions")]


def _latents(found: Evaluation) -> Iterator[Finding]:
    collapsed = "the posterior has collapsed"
    if found.codes is None:
        if found.kl.value < COLLAPSED:
            yield Finding(
                f"The posterior hardly differs from the prior (KL {found.kl.value:.2g} nats): it "
                "has collapsed, unless the task is deterministic.",
                Grade.DOUBTFUL,
                collapsed,
            )
        return
    information = float(found.codes.information.sum())
    if information < COLLAPSED:
        text = (
            f"The posterior has collapsed: all codes carry {information:.2g} nats about the "
            "observation."
        )
        yield Finding(text, Grade.BAD, collapsed)
        return
    dead, each = found.codes.dead_share, information / len(found.codes.usage)
    yield Finding(
        f"{dead:.0%} of the codes are dead; each variable carries {each:.2g} nats about the "
        "observation.",
        Grade.DOUBTFUL if dead >= MANY_DEAD or information < LITTLE else Grade.GOOD,
    )


def _episodes(found: Evaluation) -> Iterator[Finding]:
    if found.episodes < FEW_EPISODES:
        few = f"only {count(found.episodes, 'episode')}"
        what = "there are no intervals" if found.episodes == 1 else "the intervals are too narrow"
        yield Finding(f"{few.capitalize()} measured: {what}.", Grade.DOUBTFUL, f"{few} measured")
