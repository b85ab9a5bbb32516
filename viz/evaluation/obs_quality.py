"""Metrics of predicted observations: scores in dB, baselines, skill, sensitivity to actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wmtk.stats import Numbers
from wmtk.viz.evaluation.measurements import Flags, Measurements
from wmtk.viz.evaluation.obs_errors import ObsErrors
from wmtk.viz.metrics import (
    Bootstrap,
    Estimate,
    Usable,
    best_future,
    fair_error,
    psnr,
    sensitivity,
    skill,
    spread_skill,
    usable_horizon,
)

MOSTLY = 0.5  # share of the variance that reliable predictions explain at least


@dataclass(frozen=True)
class ObsQuality:
    """One observation key at each of H steps after the context."""

    image: bool
    score: Estimate  # dB: PSNR of images, SNR of vectors
    best: Estimate
    ceiling: Estimate
    copy: Estimate
    average: Estimate
    ssim: Estimate
    ssim_ceiling: Estimate
    skill: Estimate
    skill_of_ceiling: Estimate  # a scalar, over all steps
    informed: Estimate
    informed_ceiling: Estimate  # a scalar: 1 − MSE of reconstructions / MSE of the mean frame
    moving_share: Estimate
    moving_error: Estimate  # mean squared error where something moved
    moving: Estimate
    moving_ceiling: Estimate  # a scalar
    spread: Estimate  # the standard deviation of futures
    spread_skill: Estimate
    actions: Estimate
    actions_overall: Estimate  # a scalar, over all steps
    above_copy: Usable  # steps at which the interval of `skill` is above 0
    above_average: Usable  # steps at which the interval of `informed` is above 0
    reliable: Usable  # steps at which the interval of `informed` is above MOSTLY


def obs_quality(key: str, data: Measurements, bootstrap: Bootstrap) -> ObsQuality:
    """All metrics of one observation key."""
    errors, ahead = data.obs[key], data.ahead
    S = data.samples

    def mean(values: Numbers) -> Estimate:
        return bootstrap.mean(values, ahead)

    def against(error: Numbers, baseline: Numbers) -> Estimate:
        return skill(error * ahead, baseline * ahead, bootstrap)

    def overall(error: Numbers, baseline: Numbers) -> Estimate:
        return skill((error * ahead).sum(1), (baseline * ahead).sum(1), bootstrap)

    futures = psnr(errors.error)  # (N, S, H)
    other = psnr(data.other_actions[key]).mean(1)  # (N, H)
    fair = fair_error(errors.error_of_mean, errors.variance, S)
    over_copy = against(errors.error.mean(1), errors.copy)
    informed = against(fair, errors.average)
    return ObsQuality(
        image=key in data.images,
        score=mean(futures.mean(1)),
        best=mean(best_future(futures, ahead)),
        ceiling=mean(psnr(errors.ceiling)),
        copy=mean(psnr(errors.copy)),
        average=mean(psnr(errors.average)),
        ssim=_similarity(errors.ssim, ahead, bootstrap),
        ssim_ceiling=_similarity(errors.ssim_ceiling, ahead, bootstrap),
        skill=over_copy,
        skill_of_ceiling=overall(errors.ceiling, errors.copy),
        informed=informed,
        informed_ceiling=overall(errors.ceiling, errors.average),
        moving_share=mean(errors.moved),
        moving_error=bootstrap.ratio(errors.moved_error * ahead, errors.moved * ahead),
        moving=against(errors.moved_error, errors.moved_copy),
        moving_ceiling=overall(errors.moved_ceiling, errors.moved_copy),
        spread=mean(np.sqrt(errors.variance)),
        spread_skill=_spread_skill(errors, data, bootstrap),
        actions=sensitivity(futures.mean(1), other, data.other_mask, bootstrap),
        actions_overall=bootstrap.ratio(
            np.where(data.other_mask, futures.mean(1) - other, 0).sum(1),
            data.other_mask.sum(1),
        ),
        above_copy=usable_horizon(over_copy),
        above_average=usable_horizon(informed),
        reliable=usable_horizon(informed.map(lambda share: share - MOSTLY)),
    )


def steps_above_baselines(obs: Mapping[str, ObsQuality]) -> int:
    """The last step up to which all predictions are better than both baselines; 0 for none."""
    return min(min(q.above_copy.last, q.above_average.last) for q in obs.values())


def reliable_steps(obs: Mapping[str, ObsQuality]) -> int:
    """The last step up to which predictions also explain most of the variance; 0 for none."""
    return min(steps_above_baselines(obs), *(q.reliable.last for q in obs.values()))


def _similarity(values: Numbers, mask: Flags, bootstrap: Bootstrap) -> Estimate:
    """The mean over windows; all NaN where SSIM is not defined."""
    if np.isnan(values).any():
        unknown = np.full(values.shape[1], np.nan)
        return Estimate(unknown, unknown, unknown)
    return bootstrap.mean(values, mask)


def _spread_skill(errors: ObsErrors, data: Measurements, bootstrap: Bootstrap) -> Estimate:
    ahead = data.ahead
    return spread_skill(
        errors.variance * ahead, errors.error_of_mean * ahead, data.samples, bootstrap
    )
