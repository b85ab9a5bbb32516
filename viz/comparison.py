"""Several models on the same windows: which differences are beyond noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wmtk.stats import CONFIDENCE, RESAMPLES, Numbers, Rows
from wmtk.viz.evidence import Evidence
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
    """One number of each model, and how far the others are from the first, with intervals."""

    name: str
    better: str  # "higher", "lower", or "" where neither is
    values: list[float]
    differences: list[Estimate]  # to the first model, one for each of the others

    def beyond_noise(self, other: int) -> bool:
        """Whether the interval of a difference leaves out 0."""
        found = self.differences[other]
        return bool(found.low > 0 or found.high < 0)

    def says(self, other: int) -> str:
        """What a difference means: better, worse, different, or nothing."""
        found = self.differences[other]
        if np.isnan(found.low):
            return "unknown"
        if not self.beyond_noise(other):
            return "within noise"
        if not self.better:
            return "different"
        return "better" if (found.low > 0) == (self.better == "higher") else "worse"


Means = Callable[[Evidence], tuple[Numbers, Numbers]]  # numerator and denominator (N,)
Statistic = Callable[[Evidence, Rows], float]


def compare(
    found: Sequence[Evidence],
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Difference]:
    """Differences to the first model; both see the same windows, which makes them pairs."""
    first = found[0]
    for other in found[1:]:
        assert np.array_equal(first.episode, other.episode), "the windows are not the same"
        assert np.array_equal(first.mask, other.mask), "the windows are not the same"
    bootstrap = Bootstrap(first.episode, confidence=confidence, resamples=resamples, seed=seed)
    rows = []
    for key in first.obs:
        name = "PSNR" if key in first.images else "SNR"
        rows += [
            _ratio(f"{key}: {name}, dB", "higher", _score(key), found, bootstrap),
            _ratio(f"{key}: {name} of reconstructions", "higher", _ceiling(key), found, bootstrap),
            _ratio(f"{key}: skill", "higher", _skill(key), found, bootstrap),
            _ratio(f"{key}: moving", "higher", _moving(key), found, bootstrap),
            _ratio(f"{key}: informed", "higher", _informed(key), found, bootstrap),
            _ratio(f"{key}: actions, dB", "higher", _actions(key), found, bootstrap),
        ]
    for name, imagined in (("seen", False), ("imagined", True)):
        rows.append(_statistic(f"reward, {name}", _reward(imagined), found, bootstrap))
        rows.append(_statistic(f"ends, {name}", _ends(imagined), found, bootstrap))
    steps = min(*(evidence.policy_horizon for evidence in found), first.horizon)
    name = f"returns over {steps} steps, correlation"
    rows.append(_statistic(name, _returns(steps), found, bootstrap))
    rows.append(_ratio("KL, nats", "", _kl, found, bootstrap))
    if all(evidence.posterior is not None for evidence in found):
        rows.append(_dead(found))
    return [row for row in rows if not np.isnan(row.values).all()]


def _ratio(
    name: str, better: str, means: Means, found: Sequence[Evidence], bootstrap: Bootstrap
) -> Difference:
    """Sums over windows; the denominators are those of the windows, and so the same."""
    parts = [means(evidence) for evidence in found]
    values = [float(bootstrap.ratio(*part).value) for part in parts]
    below = parts[0][1]
    differences = [bootstrap.ratio(above - parts[0][0], below) for above, _ in parts[1:]]
    return Difference(name, better, values, differences)


def _statistic(
    name: str, statistic: Statistic, found: Sequence[Evidence], bootstrap: Bootstrap
) -> Difference:
    everything = np.arange(len(found[0].episode))
    values = [statistic(evidence, everything) for evidence in found]
    differences = [
        bootstrap.statistic(
            lambda rows, other=other: statistic(other, rows) - statistic(found[0], rows)  # type: ignore[misc]
        )
        for other in found[1:]
    ]
    return Difference(name, "higher", values, differences)


def _dead(found: Sequence[Evidence]) -> Difference:
    shares = [code_usage(e.posterior).dead_share for e in found if e.posterior is not None]
    nothing = np.asarray(np.nan)
    gaps = [Estimate(np.asarray(share - shares[0]), nothing, nothing) for share in shares[1:]]
    return Difference("dead codes, share", "lower", shares, gaps)


# --- the numbers of one model, as sums over windows -------------------------------------------


def _over_steps(values: Numbers, found: Evidence) -> tuple[Numbers, Numbers]:
    """The mean over all steps that exist."""
    mask = found.ahead
    return np.where(mask, values, 0).sum(1), mask.sum(1).astype(np.float64)


def _score(key: str) -> Means:
    return lambda found: _over_steps(psnr(found.obs[key].error).mean(1), found)


def _ceiling(key: str) -> Means:
    return lambda found: _over_steps(psnr(found.obs[key].ceiling), found)


def _gain(error: Numbers, baseline: Numbers, found: Evidence) -> tuple[Numbers, Numbers]:
    """(baseline − error) / baseline, which is a skill."""
    mask = found.ahead
    return ((baseline - error) * mask).sum(1), (baseline * mask).sum(1)


def _skill(key: str) -> Means:
    return lambda found: _gain(found.obs[key].error.mean(1), found.obs[key].copy, found)


def _moving(key: str) -> Means:
    return lambda found: _gain(found.obs[key].moved_error, found.obs[key].moved_copy, found)


def _informed(key: str) -> Means:
    def means(found: Evidence) -> tuple[Numbers, Numbers]:
        errors = found.obs[key]
        fair = fair_error(errors.error_of_mean, errors.variance, found.samples)
        return _gain(fair, errors.average, found)

    return means


def _actions(key: str) -> Means:
    def means(found: Evidence) -> tuple[Numbers, Numbers]:
        mask = found.other_mask
        gain = (psnr(found.obs[key].error) - psnr(found.other_actions[key])).mean(1)
        return np.where(mask, gain, 0).sum(1), mask.sum(1).astype(np.float64)

    return means


def _kl(found: Evidence) -> tuple[Numbers, Numbers]:
    return (found.kl * found.mask).sum(1), found.mask.sum(1).astype(np.float64)


def _reward(imagined: bool) -> Statistic:
    def statistic(found: Evidence, rows: Rows) -> float:
        first = found.context if imagined else 0
        true, mask = found.reward[:, first:], found.mask[:, first:]
        said = found.reward_imagined if imagined else found.reward_seen
        share = (true[mask] != 0).mean()
        if not 0 < share < SPARSE:
            return r_squared(true[rows][mask[rows]], said[rows][mask[rows]])
        signs = [sign for sign in (1, -1) if (np.sign(true[mask]) == sign).any()]
        scores = [
            tolerant_average_precision(
                np.sign(true[rows]) == sign, sign * said[rows], TOLERANCE, mask[rows]
            )
            for sign in signs
        ]
        return float(np.mean(scores))

    return statistic


def _returns(steps: int) -> Statistic:
    def statistic(found: Evidence, rows: Rows) -> float:
        chosen = rows[found.complete(steps)[rows]]
        pair = (found.discounted, found.discounted_imagined)
        return correlation(*(rewards[chosen, :steps].sum(1) for rewards in pair))

    return statistic


def _ends(imagined: bool) -> Statistic:
    def statistic(found: Evidence, rows: Rows) -> float:
        if found.gamma is None:
            return np.nan
        first = found.context if imagined else 0
        said = found.discount_imagined if imagined else found.discount_seen
        mask = found.mask[rows, first:]
        return average_precision(found.terminal[rows, first:][mask], -said[rows][mask])

    return statistic
