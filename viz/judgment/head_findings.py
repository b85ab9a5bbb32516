"""Whether rewards and ends are predicted: from states that saw the row, and from imagined ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wmtk.viz.evaluation import Evaluation
from wmtk.viz.judgment.grades import Finding, Grade, adverb, better, count, graded, worst
from wmtk.viz.metrics import EventQuality, RewardQuality

SIZES = (0.5, 2.0)  # of predicted rewards for true ones, between which they are about right
TOO_MUCH = 0.5  # of all rewards that come: reward in excess of that is made up
FEW_EVENTS = 4  # rewards of one sign; fewer leave room for chance
OFTEN = 0.05  # of all steps: so many more or fewer ends than there are


def reward_findings(found: Evaluation) -> Iterator[Finding]:
    """Where rewards are rare, each sign by itself: the frequent one must not hide the other."""
    kinds = (found.reward_seen, found.reward_policy, found.reward_imagined)
    if not found.reward_seen.sparse:
        seen, policy, longest = (float(quality.r_squared.value) for quality in kinds)
        if np.isnan([seen, policy]).any():
            yield Finding("Rewards hardly vary: only their sums can be judged.", Grade.GOOD)
            return
        yield _by_horizon("rewards", "R²", (seen, policy, longest), found, Grade.BAD)
        return
    signs = [tuple(q.positive for q in kinds), tuple(q.negative for q in kinds)]
    many = all(events[0] is not None for events in signs)
    for name, events in zip(("positive rewards", "negative rewards"), signs, strict=True):
        if events[0] is not None:
            yield from _event_findings(name if many else "rewards", events[0], events, found)
    yield from _made_up(found.reward_seen)


def _event_findings(
    what: str,
    seen: EventQuality,
    events: tuple[EventQuality | None, ...],
    found: Evaluation,
) -> Iterator[Finding]:
    """Rewards of one sign: at the right steps, and of the right size."""
    near = f"average precision within {count(seen.tolerance, 'step')}"
    each = (np.nan if e is None else float(e.with_tolerance.value) for e in events)
    observed, policy, longest = each
    finding = _by_horizon(what, near, (observed, policy, longest), found, Grade.BAD)
    if seen.count < FEW_EVENTS:
        finding = replace(finding, grade=better(Grade.DOUBTFUL, finding.grade))
    yield finding
    size = float(seen.size.value)
    if not SIZES[0] <= size <= SIZES[1]:
        surely = seen.size.high < SIZES[0] or seen.size.low > SIZES[1]
        text = f"Where {what} occur, {size:.2g} times their size is predicted."
        grade = Grade.BAD if surely and seen.count >= FEW_EVENTS else Grade.DOUBTFUL
        yield Finding(text, grade, f"{what} are {size:.2g} times their size")


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


def _made_up(seen: RewardQuality) -> Iterator[Finding]:
    """Rewards may be found at the right steps, and others be made up."""
    bias = seen.return_bias
    surely = np.isnan(bias.low) or bias.low > 0 or bias.high < 0
    sizes = [float(e.size.value) for e in (seen.positive, seen.negative) if e is not None]
    fits = all(SIZES[0] <= size <= SIZES[1] for size in sizes)
    if not fits or not surely or abs(bias.value) <= TOO_MUCH * seen.amount:
        return
    side, much = ("Positive", "much") if bias.value > 0 else ("Negative", "little")
    text = (
        f"{side} rewards are predicted where none occur: {abs(bias.value):.2g} too {much} in a "
        f"window, whose true rewards are {seen.amount:.2g} in size."
    )
    yield Finding(text, Grade.BAD, "rewards are predicted where none occur")


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
