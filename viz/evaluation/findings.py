"""Findings on rewards, ends of the task and imagined returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wmtk.viz.evaluation.grades import Finding, Grade, adverb, better, count, graded, worst
from wmtk.viz.evaluation.interval_text import format_interval
from wmtk.viz.evaluation.model_metrics import ImaginedReturns, ModelMetrics
from wmtk.viz.metrics import Estimate, EventQuality, ReturnQuality, RewardQuality

SIZES = (0.5, 2.0)  # accepted ratios of predicted to true rewards
TOO_MUCH = 0.5  # of the true rewards: a larger bias without missed events is false reward
FEW_EVENTS = 4  # rewards of one sign; fewer are too few for a bad grade
OFTEN = 0.05  # difference between predicted and true rate of ends
FITS, OFF = 0.25, 0.5  # bias, as a share of the size of the true returns
CLOSELY, LOOSELY = 0.7, 0.4  # correlation
HARDLY = 0.55  # upper end of the interval of a bad correlation; a wider one is doubtful
FEW_WINDOWS = 8  # fewer are too few to judge returns
FEW_VARIED = 4  # windows whose returns differ; fewer are too few to judge a correlation


def reward_findings(metrics: ModelMetrics) -> Iterator[Finding]:
    """Dense rewards by R²; sparse ones by average precision, each sign separately."""
    kinds = (metrics.reward_observed, metrics.reward_policy, metrics.reward_imagined)
    if not metrics.reward_observed.sparse:
        observed, policy, longest = (float(quality.r_squared.value) for quality in kinds)
        if np.isnan([observed, policy]).any():
            yield Finding("Rewards hardly vary: only their sums can be judged.", Grade.GOOD)
            return
        yield _by_horizon("rewards", "R²", (observed, policy, longest), metrics, Grade.BAD)
        return
    signs = [tuple(q.positive for q in kinds), tuple(q.negative for q in kinds)]
    many = all(events[0] is not None for events in signs)
    for name, events in zip(("positive rewards", "negative rewards"), signs, strict=True):
        if events[0] is not None:
            yield from _event_findings(name if many else "rewards", events[0], events, metrics)
    yield from _false_rewards(metrics.reward_observed)


def _event_findings(
    what: str,
    first: EventQuality,
    events: tuple[EventQuality | None, ...],
    metrics: ModelMetrics,
) -> Iterator[Finding]:
    """Timing and size of the rewards of one sign."""
    near = f"average precision within {count(first.tolerance, 'step')}"
    each = (np.nan if e is None else float(e.with_tolerance.value) for e in events)
    observed, policy, longest = each
    finding = _by_horizon(what, near, (observed, policy, longest), metrics, Grade.BAD)
    if first.count < FEW_EVENTS:
        finding = replace(finding, grade=better(Grade.DOUBTFUL, finding.grade))
    yield finding
    size = float(first.size.value)
    if not SIZES[0] <= size <= SIZES[1]:
        surely = first.size.high < SIZES[0] or first.size.low > SIZES[1]
        text = f"Where {what} occur, predictions are {size:.2g} times their size."
        grade = Grade.BAD if surely and first.count >= FEW_EVENTS else Grade.DOUBTFUL
        yield Finding(text, grade, f"{what} are {size:.2g} times their size")


def _by_horizon(
    what: str,
    name: str,
    scores: tuple[float, float, float],
    metrics: ModelMetrics,
    most: Grade,
) -> Finding:
    """Scores from observed states, over the imagination horizon of a policy, and over all steps.

    `most` is the worst grade that imagined scores can get. Randomness of the task accumulates
    beyond the horizon of a policy: a bad score there is at most doubtful and is no problem.
    """
    observed, policy, longest = scores
    steps, horizon = metrics.returns_policy.steps, metrics.horizon
    parts = [f"{adverb(observed)} from observed states ({name} {observed:.2f})"]
    if not np.isnan(policy):
        parts.append(f"{adverb(policy)} over {count(steps, 'imagined step')} ({policy:.2f})")
    decisive = worst([graded(observed), better(most, graded(policy))])
    grade = decisive
    if horizon > steps and not np.isnan(longest):
        parts.append(f"{adverb(longest)} over {count(horizon, 'imagined step')} ({longest:.2f})")
        if graded(longest) == Grade.BAD:
            grade = worst([grade, Grade.DOUBTFUL])
    *first, last = parts
    text = f"{', '.join(first)} and {last}" if first else last
    problem = f"{what} are predicted {adverb(np.nanmin([observed, policy]))}"
    return Finding(
        f"{what.capitalize()} are predicted {text}.",
        grade,
        problem if decisive != Grade.GOOD else "",
    )


def _false_rewards(observed: RewardQuality) -> Iterator[Finding]:
    """Rewards predicted at steps without a reward."""
    bias = observed.return_bias
    surely = np.isnan(bias.low) or bias.low > 0 or bias.high < 0
    sizes = [float(e.size.value) for e in (observed.positive, observed.negative) if e is not None]
    fits = all(SIZES[0] <= size <= SIZES[1] for size in sizes)
    if not fits or not surely or abs(bias.value) <= TOO_MUCH * observed.amount:
        return
    side, much = ("Positive", "much") if bias.value > 0 else ("Negative", "little")
    text = (
        f"{side} rewards are predicted where none occur: {abs(bias.value):.2g} too {much} per "
        f"window, where true rewards add up to {observed.amount:.2g} in absolute value."
    )
    yield Finding(text, Grade.BAD, "rewards are predicted where none occur")


def end_findings(metrics: ModelMetrics) -> Iterator[Finding]:
    ends, policy, longest = metrics.ends_observed, metrics.ends_policy, metrics.ends_imagined
    if ends is None or policy is None or longest is None:
        text = "The model does not predict the end of the task"
        if metrics.ends:
            times = count(metrics.ends, "time")
            text = f"{text}, which occurs {times} in these windows."
            yield Finding(text, Grade.DOUBTFUL, "ends of the task are not predicted")
        else:
            yield Finding(f"{text}, which does not occur in these windows.", Grade.GOOD)
        return
    if not ends.terminal:
        text = "Ends cannot be judged: the task does not end in these windows."
        yield Finding(text, Grade.DOUBTFUL)
        return
    kinds = (ends, policy, longest)
    observed, *imagined = (float(quality.average_precision.value) for quality in kinds)
    name = f"base rate {ends.base_rate:.2g}, average precision"
    yield _by_horizon("ends", name, (observed, imagined[0], imagined[1]), metrics, Grade.DOUBTFUL)
    if ends.at_truncated > 0.5:
        text = (
            "Time limits are predicted as ends of the task (mean probability "
            f"{ends.at_truncated:.0%})."
        )
        yield Finding(text, Grade.BAD, "time limits are predicted as ends")
    if abs(ends.expected_rate - ends.base_rate) > OFTEN:
        often = "often" if ends.expected_rate > ends.base_rate else "rarely"
        text = (
            f"Ends are predicted far too {often}: at {ends.expected_rate:.0%} of the steps, while "
            f"{ends.base_rate:.1%} are ends."
        )
        yield Finding(text, Grade.BAD, f"ends are predicted far too {often}")


# --- imagined returns -------------------------------------------------------------------------


def return_findings(metrics: ModelMetrics) -> Iterator[Finding]:
    """Returns over the imagination horizon of a policy, and over all imagined steps."""
    policy = _finding(metrics.returns_policy, metrics, in_policy=True)
    yield policy
    if metrics.returns.steps > metrics.returns_policy.steps and not _unknown(metrics.returns):
        longest = _finding(metrics.returns, metrics, in_policy=False)
        repeated = policy.problem and longest.grade == better(policy.grade, longest.grade)
        yield replace(longest, problem="") if repeated else longest


def _unknown(returns: ImaginedReturns) -> str:
    """The reason why returns cannot be judged; empty if they can."""
    if returns.windows < FEW_WINDOWS:
        return f"only {count(returns.windows, 'window')} of that length"
    return "" if returns.discounted.size else "no rewards in these windows"


def _finding(returns: ImaginedReturns, metrics: ModelMetrics, *, in_policy: bool) -> Finding:
    """The finding on discounted or undiscounted returns, whichever are worse.

    `in_policy` marks returns over the imagination horizon of a policy. Beyond it, randomness of the
    task can remove the correlation, which is then no problem; a bias always is one.
    """
    where = f"over {count(returns.steps, 'imagined step')}"
    if in_policy and returns.steps == metrics.policy_horizon:
        where = f"over the {count(returns.steps, 'step')} that a policy imagines"
    if why := _unknown(returns):
        text = f"Returns {where} cannot be judged: {why}."
        return Finding(text, Grade.DOUBTFUL, f"returns cannot be judged ({why})")
    kinds = [("Discounted returns", returns.discounted), ("Returns", returns.undiscounted)]
    if not in_policy:
        kinds.reverse()
    name, quality = max(kinds, key=lambda kind: list(Grade).index(_grade(kind[1], in_policy)))
    bias, relation = _bias_words(quality), _relation_words(quality)
    words = " and ".join([*bias, *relation]) or "predicted well"
    unit = " (in the model's transformed rewards)" if metrics.transformed else ""
    numbers = (
        f"predicted {_mean(quality.imagined)} on average, true {_mean(quality.true)}{unit}",
        f"bias {format_interval(quality.bias)}",
        _correlation(quality),
    )
    text = f"{name} {where} are {words}: {'; '.join(numbers)}."
    decisive = " and ".join([*bias, *relation] if in_policy else bias)
    which = "imagined returns" if in_policy else f"returns {where}"
    problem = f"{which} are {decisive}" if decisive else ""
    return Finding(text, _grade(quality, in_policy), problem)


def _grade(quality: ReturnQuality, in_policy: bool) -> Grade:
    relation = relation_grade(quality)
    if not in_policy and relation == Grade.BAD:
        relation = Grade.DOUBTFUL
    return worst([bias_grade(quality), relation])


def bias_grade(quality: ReturnQuality) -> Grade:
    """The grade of the bias, relative to the size of the true returns."""
    off, least, most = _bias(quality)
    if off <= FITS and most <= OFF:
        return Grade.GOOD
    return Grade.BAD if off >= OFF and least > FITS else Grade.DOUBTFUL


def relation_grade(quality: ReturnQuality) -> Grade:
    """The grade of the correlation; good if the true returns do not vary."""
    if not quality.varied:
        return Grade.GOOD
    if quality.varied < FEW_VARIED:
        return Grade.DOUBTFUL
    value, low, high = (float(part) for part in vars(quality.correlation).values())
    if np.isnan(value):  # the imagined ones do not vary
        return Grade.BAD
    if value >= CLOSELY and low >= LOOSELY:
        return Grade.GOOD
    return Grade.BAD if value < LOOSELY and high < HARDLY else Grade.DOUBTFUL


def _bias(quality: ReturnQuality) -> tuple[float, float, float]:
    """Absolute bias with the ends of its interval, relative to the size of the true returns."""
    bias, size = quality.bias, quality.size
    if np.isnan(bias.low):
        return abs(float(bias.value)) / size, 0.0, np.inf
    ends = abs(float(bias.low)), abs(float(bias.high))
    least = 0.0 if bias.low <= 0 <= bias.high else min(ends)
    return abs(float(bias.value)) / size, least / size, max(ends) / size


def _bias_words(quality: ReturnQuality) -> list[str]:
    grade, (_, least, _) = bias_grade(quality), _bias(quality)
    if grade == Grade.GOOD:
        return []
    if not least:
        return ["of uncertain bias"]
    side = "high" if quality.bias.value > 0 else "low"
    return [f"too {side}" if grade == Grade.BAD else f"somewhat too {side}"]


def _relation_words(quality: ReturnQuality) -> list[str]:
    grade = relation_grade(quality)
    if grade == Grade.GOOD:
        return []
    if grade == Grade.BAD:
        low, high = quality.correlation.low, quality.correlation.high
        how = "opposed" if high < 0 else "hardly related" if low > 0 else "unrelated"
        return [f"{how} to the true returns"]
    sure = quality.varied >= FEW_VARIED and LOOSELY <= quality.correlation.value < CLOSELY
    return [
        "only loosely related to the true returns"
        if sure
        else "of unclear relation to the true returns"
    ]


def _mean(estimate: Estimate) -> str:
    return format_interval(estimate).partition(" ")[0]


def _correlation(quality: ReturnQuality) -> str:
    if not quality.varied:
        return "the true returns hardly vary, so that their correlation is not judged"
    if quality.varied < FEW_VARIED:
        few = count(quality.varied, "window")
        return f"true returns differ in {few} only, so that their correlation is not judged"
    if np.isnan(quality.correlation.value):
        return "no correlation, because the imagined returns do not vary"
    return f"correlation {format_interval(quality.correlation)}"
