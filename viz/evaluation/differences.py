"""Differences between models on the same windows, with paired bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wmtk.stats import CONFIDENCE, RESAMPLES, Numbers, Rows
from wmtk.viz.evaluation.measurements import Measurements
from wmtk.viz.metrics import (
    Bootstrap,
    Estimate,
    average_precision,
    code_usage,
    correlation,
    psnr,
    r_squared,
    tolerant_average_precision,
)
from wmtk.viz.metrics.futures import fair_error
from wmtk.viz.metrics.rewards import SPARSE, TOLERANCE


@dataclass(frozen=True)
class Difference:
    """One metric of each model, and the differences to the first model with intervals."""

    name: str
    better: str  # "higher", "lower" or "" if neither
    values: list[float]
    differences: list[Estimate]  # to the first model, one for each of the others

    def is_significant(self, other: int) -> bool:
        """Whether the interval of a difference excludes 0."""
        difference = self.differences[other]
        return bool(difference.low > 0 or difference.high < 0)

    def outcome(self, other: int) -> str:
        """`better`, `worse`, `different`, `within noise` or `unknown` (without an interval)."""
        difference = self.differences[other]
        if np.isnan(difference.low):
            return "unknown"
        if not self.is_significant(other):
            return "within noise"
        if not self.better:
            return "different"
        return "better" if (difference.low > 0) == (self.better == "higher") else "worse"


Means = Callable[[Measurements], tuple[Numbers, Numbers]]  # numerator and denominator (N,)
Statistic = Callable[[Measurements, Rows], float]


def compute_differences(
    models: Sequence[Measurements],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Compute the differences of all metrics to the first model; windows must be the same."""
    first = models[0]
    for other in models[1:]:
        assert np.array_equal(first.episode, other.episode), "windows differ"
        assert np.array_equal(first.mask, other.mask), "windows differ"
    bootstrap = Bootstrap(first.episode, confidence=confidence, resamples=resamples, seed=seed)
    rows = []
    for key in first.obs:
        name = "PSNR" if key in first.images else "SNR"
        rows += [
            _ratio(f"{key}: {name}, dB", "higher", _score(key), models, bootstrap),
            _ratio(f"{key}: {name} of reconstructions", "higher", _ceiling(key), models, bootstrap),
            _ratio(f"{key}: skill", "higher", _skill(key), models, bootstrap),
            _ratio(f"{key}: moving", "higher", _moving(key), models, bootstrap),
            _ratio(f"{key}: informed", "higher", _informed(key), models, bootstrap),
            _ratio(f"{key}: actions, dB", "higher", _actions(key), models, bootstrap),
        ]
    for name, imagined in (("observed", False), ("imagined", True)):
        rows.append(_statistic(f"reward, {name}", _reward(imagined), models, bootstrap))
        rows.append(_statistic(f"ends, {name}", _ends(imagined), models, bootstrap))
    steps = min(*(data.policy_horizon for data in models), first.horizon)
    name = f"returns over {steps} steps, correlation"
    rows.append(_statistic(name, _returns(steps), models, bootstrap))
    rows.append(_ratio("KL, nats", "", _kl, models, bootstrap))
    if all(data.posterior is not None for data in models):
        rows.append(_dead(models))
    return [row for row in rows if not np.isnan(row.values).all()]


def _ratio(
    name: str, better: str, means: Means, models: Sequence[Measurements], bootstrap: Bootstrap
) -> Difference:
    """A ratio of sums over windows, whose denominator is the same for all models."""
    parts = [means(data) for data in models]
    values = [float(bootstrap.ratio(*part).value) for part in parts]
    below = parts[0][1]
    differences = [bootstrap.ratio(above - parts[0][0], below) for above, _ in parts[1:]]
    return Difference(name, better, values, differences)


def _statistic(
    name: str, statistic: Statistic, models: Sequence[Measurements], bootstrap: Bootstrap
) -> Difference:
    all_rows = np.arange(len(models[0].episode))
    values = [statistic(data, all_rows) for data in models]
    differences = [
        bootstrap.statistic(
            lambda rows, other=other: statistic(other, rows) - statistic(models[0], rows)  # type: ignore[misc]
        )
        for other in models[1:]
    ]
    return Difference(name, "higher", values, differences)


def _dead(models: Sequence[Measurements]) -> Difference:
    shares = [code_usage(e.posterior).dead_share for e in models if e.posterior is not None]
    unknown = np.asarray(np.nan)
    gaps = [Estimate(np.asarray(share - shares[0]), unknown, unknown) for share in shares[1:]]
    return Difference("dead codes, share", "lower", shares, gaps)


# --- metrics of one model, as sums over windows ------------------------------------------------


def _over_steps(values: Numbers, data: Measurements) -> tuple[Numbers, Numbers]:
    """Sum over existing steps, and their number, for each window."""
    mask = data.ahead
    return np.where(mask, values, 0).sum(1), mask.sum(1).astype(np.float64)


def _score(key: str) -> Means:
    return lambda data: _over_steps(psnr(data.obs[key].error).mean(1), data)


def _ceiling(key: str) -> Means:
    return lambda data: _over_steps(psnr(data.obs[key].ceiling), data)


def _gain(error: Numbers, baseline: Numbers, data: Measurements) -> tuple[Numbers, Numbers]:
    """Numerator and denominator of the skill (baseline − error) / baseline."""
    mask = data.ahead
    return ((baseline - error) * mask).sum(1), (baseline * mask).sum(1)


def _skill(key: str) -> Means:
    return lambda data: _gain(data.obs[key].error.mean(1), data.obs[key].copy, data)


def _moving(key: str) -> Means:
    return lambda data: _gain(data.obs[key].moved_error, data.obs[key].moved_copy, data)


def _informed(key: str) -> Means:
    def means(data: Measurements) -> tuple[Numbers, Numbers]:
        errors = data.obs[key]
        fair = fair_error(errors.error_of_mean, errors.variance, data.samples)
        return _gain(fair, errors.average, data)

    return means


def _actions(key: str) -> Means:
    def means(data: Measurements) -> tuple[Numbers, Numbers]:
        mask = data.other_mask
        gain = (psnr(data.obs[key].error) - psnr(data.other_actions[key])).mean(1)
        return np.where(mask, gain, 0).sum(1), mask.sum(1).astype(np.float64)

    return means


def _kl(data: Measurements) -> tuple[Numbers, Numbers]:
    return (data.kl * data.mask).sum(1), data.mask.sum(1).astype(np.float64)


def _reward(imagined: bool) -> Statistic:
    def statistic(data: Measurements, rows: Rows) -> float:
        first = data.context if imagined else 0
        true, mask = data.reward[:, first:], data.mask[:, first:]
        predicted = data.reward_imagined if imagined else data.reward_observed
        share = (true[mask] != 0).mean()
        if not 0 < share < SPARSE:
            return r_squared(true[rows][mask[rows]], predicted[rows][mask[rows]])
        signs = [sign for sign in (1, -1) if (np.sign(true[mask]) == sign).any()]
        scores = [
            tolerant_average_precision(
                np.sign(true[rows]) == sign, sign * predicted[rows], TOLERANCE, mask[rows]
            )
            for sign in signs
        ]
        return float(np.mean(scores))

    return statistic


def _returns(steps: int) -> Statistic:
    def statistic(data: Measurements, rows: Rows) -> float:
        chosen = rows[data.complete(steps)[rows]]
        pair = (data.discounted, data.discounted_imagined)
        return correlation(*(rewards[chosen, :steps].sum(1) for rewards in pair))

    return statistic


def _ends(imagined: bool) -> Statistic:
    def statistic(data: Measurements, rows: Rows) -> float:
        if data.gamma is None:
            return np.nan
        first = data.context if imagined else 0
        predicted = data.discount_imagined if imagined else data.discount_observed
        mask = data.mask[rows, first:]
        return average_precision(data.terminal[rows, first:][mask], -predicted[rows][mask])

    return statistic
