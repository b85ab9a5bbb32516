"""Whether imagined returns are right, which is what a policy learns from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wmtk.viz.evaluation import Evaluation
from wmtk.viz.imagined_returns import ImaginedReturns
from wmtk.viz.interval_text import spoken
from wmtk.viz.judgment.grades import Finding, Grade, better, count, worst
from wmtk.viz.metrics import Estimate, ReturnQuality

FITS, OFF = 0.25, 0.5  # a bias, for the size of true returns
CLOSELY, LOOSELY = 0.7, 0.4  # a correlation
HARDLY = 0.55  # what the interval of a bad correlation stays below: a wide one is doubtful
FEW_WINDOWS = 8  # fewer say nothing about returns
FEW_VARIED = 4  # windows; a correlation over fewer returns that differ is chance


def return_findings(found: Evaluation) -> Iterator[Finding]:
    """Over the steps that a policy imagines, and over all that were imagined here."""
    policy = _finding(found.returns_policy, found, relied_on=True)
    yield policy
    if found.returns.steps > found.returns_policy.steps and not _unknown(found.returns):
        longest = _finding(found.returns, found, relied_on=False)
        told = policy.problem and longest.grade == better(policy.grade, longest.grade)
        yield replace(longest, problem="") if told else longest


def _unknown(returns: ImaginedReturns) -> str:
    """Why returns cannot be judged; empty if they can."""
    if returns.windows < FEW_WINDOWS:
        return f"only {count(returns.windows, 'window')} of that length"
    return "" if returns.discounted.size else "no rewards in these windows"


def _finding(returns: ImaginedReturns, found: Evaluation, *, relied_on: bool) -> Finding:
    """What is wrong with the discounted or the undiscounted returns, whichever are worse.

    Beyond the steps that a policy relies on, chance in the task may well leave no correlation.
    That gives no bias, however: a bias always counts.
    """
    where = f"over {count(returns.steps, 'imagined step')}"
    if relied_on and returns.steps == found.policy_horizon:
        where = f"over the {count(returns.steps, 'step')} that a policy imagines"
    if why := _unknown(returns):
        text = f"Returns {where} cannot be judged: {why}."
        return Finding(text, Grade.DOUBTFUL, f"returns cannot be judged ({why})")
    kinds = [("Discounted returns", returns.discounted), ("Returns", returns.undiscounted)]
    if not relied_on:
        kinds.reverse()
    name, quality = max(kinds, key=lambda kind: list(Grade).index(_grade(kind[1], relied_on)))
    bias, relation = _bias_words(quality), _relation_words(quality)
    words = " and ".join([*bias, *relation]) or "predicted well"
    unit = " (in the model's unit of reward)" if found.transformed else ""
    numbers = (
        f"predicted {_mean(quality.imagined)} on average, true {_mean(quality.true)}{unit}",
        f"bias {spoken(quality.bias)}",
        _correlation(quality),
    )
    text = f"{name} {where} are {words}: {'; '.join(numbers)}."
    decisive = " and ".join([*bias, *relation] if relied_on else bias)
    which = "imagined returns" if relied_on else f"returns {where}"
    problem = f"{which} are {decisive}" if decisive else ""
    return Finding(text, _grade(quality, relied_on), problem)


def _grade(quality: ReturnQuality, relied_on: bool) -> Grade:
    relation = relation_grade(quality)
    if not relied_on and relation == Grade.BAD:
        relation = Grade.DOUBTFUL
    return worst([bias_grade(quality), relation])


def bias_grade(quality: ReturnQuality) -> Grade:
    """Whether the mean is right, by the size of the true returns."""
    off, least, most = _bias(quality)
    if off <= FITS and most <= OFF:
        return Grade.GOOD
    return Grade.BAD if off >= OFF and least > FITS else Grade.DOUBTFUL


def relation_grade(quality: ReturnQuality) -> Grade:
    """Whether higher returns are imagined where they are higher; good if true ones do not vary."""
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
    """The size of a bias, and between which it lies, for the size of the true returns."""
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
        return ["uncertain on average"]
    side = "high" if quality.bias.value > 0 else "low"
    return [f"too {side}" if grade == Grade.BAD else f"somewhat too {side}"]


def _relation_words(quality: ReturnQuality) -> list[str]:
    grade = relation_grade(quality)
    if grade == Grade.GOOD:
        return []
    if grade == Grade.BAD:
        low, high = quality.correlation.low, quality.correlation.high
        how = "opposed" if high < 0 else "hardly related" if low > 0 else "unrelated"
        return [f"{how} to the true ones"]
    sure = quality.varied >= FEW_VARIED and LOOSELY <= quality.correlation.value < CLOSELY
    return [
        "only loosely related to the true ones" if sure else "of unclear relation to the true ones"
    ]


def _mean(estimate: Estimate) -> str:
    return spoken(estimate).partition(" ")[0]


def _correlation(quality: ReturnQuality) -> str:
    if not quality.varied:
        return "the true ones hardly vary, so that their correlation is not judged"
    if quality.varied < FEW_VARIED:
        few = count(quality.varied, "window")
        return f"true ones differ in {few} only, so that their correlation is not judged"
    if np.isnan(quality.correlation.value):
        return "no correlation, as the imagined ones do not vary"
    return f"correlation {spoken(quality.correlation)}"
