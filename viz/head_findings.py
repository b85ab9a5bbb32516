"""Whether rewards and ends are predicted: from states that saw the row, and from imagined ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.viz.evaluation import Evaluation
from wmtk.viz.grades import Finding, Grade, adverb, better, count, graded, worst
from wmtk.viz.metrics import RewardQuality

SIZES = (0.5, 2.0)  # of predicted rewards for true ones, between which they are about right
TOO_MUCH = 0.5  # of all rewards that come: reward in excess of that is made up
OFTEN = 0.05  # of all steps: so many more or fewer ends than there are


def reward_findings(found: Evaluation) -> Iterator[Finding]:
    kinds = (found.reward_seen, found.reward_policy, found.reward_imagined)
    seen, policy, longest = (reward_score(quality)[0] for quality in kinds)
    if np.isnan([seen, policy]).any():
        yield Finding("Rewards hardly vary: only their sums can be judged.", Grade.GOOD)
        return
    name = reward_score(found.reward_policy)[1]
    yield _by_horizon("rewards", name, (seen, policy, longest), found, Grade.BAD)
    yield from _amounts(found.reward_seen)


def _by_horizon(
    what: str,
    name: str,
    scores: tuple[float, float, float],
    found: Evaluation,
    most: Grade,
) -> Finding:
    """Scores from observed states, over the steps that a policy imagines, and over all of them.

    `most` is the worst grade of imagined ones. Beyond the policy's steps chance adds up: a bad
    score is shown as doubtful there, and does not decide.
    """
    seen, policy, longest = scores
    steps, horizon = found.returns_policy.steps, found.horizon
    parts = [f"{adverb(seen)} from observed states ({name} {seen:.2f})"]
    if not np.isnan(policy):
        parts.append(f"{adverb(policy)} over {count(steps, 'imagined step')} ({policy:.2f})")
    decisive = worst([graded(seen), better(most, graded(policy))])
    grade = decisive
    if horizon > steps and not np.isnan(longest):
        parts.append(f"{adverb(longest)} over {count(horizon, 'imagined step')} ({longest:.2f})")
        if graded(longest) == Grade.BAD:
            grade = worst([grade, Grade.DOUBTFUL])
    *first, last = parts
    text = f"{', '.join(first)} and {last}" if first else last
    problem = f"{what} are predicted {adverb(np.nanmin([seen, policy]))}"
    return Finding(
        f"{what.capitalize()} are predicted {text}.",
        grade,
        problem if decisive != Grade.GOOD else "",
    )


def reward_score(quality: RewardQuality) -> tuple[float, str]:
    """How well rewards are predicted, and the name of that number."""
    events = [e for e in (quality.positive, quality.negative) if e is not None]
    if not events:
        return float(quality.r_squared.value), "R²"
    total = sum(e.count * float(e.with_tolerance.value) for e in events)
    near = count(events[0].tolerance, "step")
    return total / sum(e.count for e in events), f"average precision within {near}"


def _amounts(seen: RewardQuality) -> Iterator[Finding]:
    """Rewards may be found at the right steps and still be wrong: too small, or made up."""
    size = reward_size(seen)
    if np.isnan(size):
        return
    if not SIZES[0] <= size <= SIZES[1]:
        text = f"Where rewards occur, {size:.2g} times their size is predicted."
        yield Finding(text, Grade.BAD, f"rewards are {size:.2g} times their size")
        return
    bias = seen.return_bias
    surely = np.isnan(bias.low) or bias.low > 0 or bias.high < 0
    if not surely or abs(bias.value) <= TOO_MUCH * seen.amount:
        return
    side, much = ("Positive", "much") if bias.value > 0 else ("Negative", "little")
    text = (
        f"{side} rewards are predicted where none occur: {abs(bias.value):.2g} too {much} in a "
        f"window, whose true rewards are {seen.amount:.2g} in size."
    )
    yield Finding(text, Grade.BAD, "rewards are predicted where none occur")


def reward_size(quality: RewardQuality) -> float:
    """What is predicted near rewards, for what came, over both signs; NaN where they are dense."""
    events = [e for e in (quality.positive, quality.negative) if e is not None]
    total = sum(e.count * float(e.size.value) for e in events)
    return total / sum(e.count for e in events) if events else np.nan


def end_findings(found: Evaluation) -> Iterator[Finding]:
    seen, policy, longest = found.ends_seen, found.ends_policy, found.ends_imagined
    if seen is None or policy is None or longest is None:
        text = "The model does not predict when the task ends"
        if found.ends:
            many = count(found.ends, "time")
            text = f"{text}, which happens {many} in these windows."
            yield Finding(text, Grade.DOUBTFUL, "ends are not predicted")
        else:
            yield Finding(f"{text}; it does not in these windows.", Grade.GOOD)
        return
    if not seen.terminal:
        text = "Ends cannot be judged: the task ends in none of these windows."
        yield Finding(text, Grade.DOUBTFUL)
        return
    kinds = (seen, policy, longest)
    observed, *imagined = (float(quality.average_precision.value) for quality in kinds)
    name = f"base rate {seen.base_rate:.2g}, average precision"
    yield _by_horizon("ends", name, (observed, imagined[0], imagined[1]), found, Grade.DOUBTFUL)
    if seen.at_truncated > 0.5:
        text = f"Time limits are predicted as ends of the task (with {seen.at_truncated:.0%})."
        yield Finding(text, Grade.BAD, "time limits are taken for ends")
    if abs(seen.expected_rate - seen.base_rate) > OFTEN:
        often = "often" if seen.expected_rate > seen.base_rate else "rarely"
        text = (
            f"Ends are predicted far too {often}: at {seen.expected_rate:.0%} of the steps, where "
            f"{seen.base_rate:.1%} are ends."
        )
        yield Finding(text, Grade.BAD, f"ends are predicted far too {often}")
