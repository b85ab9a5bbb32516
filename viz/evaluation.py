"""The metrics of a model on recorded windows, all of them, with what each of them means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from wmtk.stats import CONFIDENCE, RESAMPLES, Numbers
from wmtk.viz.evidence import Evidence, Flags, Frames
from wmtk.viz.imagined_returns import ImaginedReturns, imagined_returns
from wmtk.viz.metrics import (
    Bootstrap,
    CodeUsage,
    EndingQuality,
    Estimate,
    FactorInformation,
    Probe,
    RewardQuality,
    Usable,
    best_future,
    code_usage,
    ending_quality,
    factor_information,
    fair_error,
    principal,
    probe,
    psnr,
    reward_quality,
    sensitivity,
    skill,
    spread_skill,
    terminal_probability,
    usable_horizon,
)
from wmtk.viz.obs_errors import ObsErrors

MOSTLY = 0.5  # of what varies has to be right, for predictions to be reliable
FEWEST_EPISODES = 3  # for probes: to fit, to tune and to test on

DEFINITIONS = {
    "PSNR": "10·log10(1/MSE) in dB, of pixels from 0 to 1, mean over frames",
    "SNR": "10·log10(1/MSE) in dB, of numbers in units of their deviation, mean over rows",
    "best": "the same, of the one future of each window that is best on the whole",
    "ceiling": "the same, of what the model shows after seeing the frame itself",
    "copy": "the same, of repeating the last frame that was seen",
    "average": "the same, of showing the mean frame of the data",
    "SSIM": "structural similarity, 1 is equality, of one future",
    "skill": "1 − MSE / MSE of copying the last frame that was seen",
    "informed": "1 − MSE of the futures' mean / MSE of the mean frame",
    "reliable": "the last step up to which skill is surely above 0 and informed above one half",
    "moving": "skill on what differs from the last frame that was seen",
    "spread/skill": "how far futures differ, for the error of their mean; 1 fits, less is too sure",
    "actions": "dB lost with the actions of other windows; near 0, actions are ignored",
    "return": "the sum of the rewards of imagined steps, with the recorded actions; discounted by "
    "the model's own discounts, which the true one is until the task ends",
    "bias": "the mean of predicted − true",
}


@dataclass(frozen=True)
class ObsQuality:
    """One observation key at each of H steps after the context."""

    image: bool
    score: Estimate  # dB: PSNR of pictures, SNR of numbers
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
    moving_error: Estimate  # the mean squared error where something moved
    moving: Estimate
    moving_ceiling: Estimate  # a scalar
    spread: Estimate  # the standard deviation of futures
    spread_skill: Estimate
    actions: Estimate
    actions_overall: Estimate  # a scalar, over all steps
    usable: Usable  # steps at which `skill` is surely above 0
    informed_steps: Usable  # steps at which `informed` is surely above 0
    mostly_right: Usable  # steps at which `informed` is surely above MOSTLY


@dataclass(frozen=True)
class Factor:
    """What of a known factor is found in the codes and the states."""

    codes: FactorInformation | None  # None if the latents are not discrete
    probes: dict[str, Probe]  # by what they read: h, z, h+z, or the pixels themselves


@dataclass(frozen=True)
class Evaluation:
    windows: int
    episodes: int
    frames: int
    context: int
    horizon: int
    policy_horizon: int  # the steps that a policy imagines when it is trained in the model
    samples: int
    latents: str  # how states are drawn
    confidence: float
    resamples: int
    obs: dict[str, ObsQuality]
    trusted: int  # steps up to which most of what varies is right; 0 for none
    usable: int  # steps up to which predictions are better than both guesses; 0 for none
    reward_seen: RewardQuality
    reward_imagined: RewardQuality
    reward_policy: RewardQuality  # imagined, over as many steps as a policy imagines
    returns: ImaginedReturns  # of all imagined steps
    returns_policy: ImaginedReturns  # of as many as a policy imagines
    transformed: bool  # whether rewards and returns are in a unit of the model's own
    ends: int  # rows at which the task ended
    ends_seen: EndingQuality | None  # None without a discount head
    ends_imagined: EndingQuality | None
    ends_policy: EndingQuality | None  # imagined, over as many steps as a policy imagines
    kl: Estimate  # nats, before free nats and balancing
    kl_at: Estimate  # (T,), at each row of a window
    entropy_posterior: Estimate
    entropy_prior: Estimate
    latent: str
    codes: CodeUsage | None  # None if the latents are not discrete
    prior_usage: Numbers | None  # (V, K)
    factors: dict[str, Factor]


def evaluate(
    found: Evidence,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    factors: bool = True,
    on_part: Callable[[str], None] = lambda name: None,
) -> Evaluation:
    """All metrics of what a model made of windows; `on_part` gets the name of the next part.

    Without `factors`, nothing is read off the states, which is what takes longest.
    """
    bootstrap = Bootstrap(found.episode, confidence=confidence, resamples=resamples, seed=seed)
    on_part("observations")
    obs = {key: obs_quality(key, found, bootstrap) for key in found.obs}
    on_part("rewards and ends")
    ahead, C = found.ahead, found.context
    relied = min(found.policy_horizon, found.horizon)

    seen = reward_quality(found.reward, found.reward_seen, found.mask, bootstrap)

    def rewards(steps: int) -> RewardQuality:
        true, imagined = found.reward[:, C : C + steps], found.reward_imagined[:, :steps]
        return reward_quality(true, imagined, ahead[:, :steps], bootstrap, sparse=seen.sparse)

    def returns(steps: int) -> ImaginedReturns:
        return imagined_returns(found, steps, confidence=confidence, resamples=resamples, seed=seed)

    on_part("codes and factors")
    return Evaluation(
        windows=len(found.episode),
        episodes=bootstrap.episodes,
        frames=int(found.mask.sum()),
        context=C,
        horizon=found.horizon,
        policy_horizon=found.policy_horizon,
        samples=found.samples,
        latents="sampled",
        confidence=confidence,
        resamples=resamples,
        obs=obs,
        trusted=trusted_steps(obs),
        usable=usable_steps(obs),
        reward_seen=seen,
        reward_imagined=rewards(found.horizon),
        reward_policy=rewards(relied),
        returns=returns(found.horizon),
        returns_policy=returns(relied),
        transformed=found.transformed,
        ends=int(found.terminal.sum()),
        ends_seen=_ends(found, bootstrap),
        ends_imagined=_ends(found, bootstrap, found.horizon),
        ends_policy=_ends(found, bootstrap, relied),
        kl=_overall(found.kl, found, bootstrap),
        kl_at=bootstrap.mean(found.kl, found.mask),
        entropy_posterior=_overall(found.entropy_posterior, found, bootstrap),
        entropy_prior=_overall(found.entropy_prior, found, bootstrap),
        latent=found.latent,
        codes=None if found.posterior is None else code_usage(found.posterior),
        prior_usage=None if found.prior is None else found.prior.mean(0, np.float64),
        factors=_factors(found.frames, seed) if factors else {},
    )


def obs_quality(key: str, found: Evidence, bootstrap: Bootstrap) -> ObsQuality:
    """The metrics of one observation key."""
    errors, ahead = found.obs[key], found.ahead
    S = found.samples

    def mean(values: Numbers) -> Estimate:
        return bootstrap.mean(values, ahead)

    def against(error: Numbers, baseline: Numbers) -> Estimate:
        return skill(error * ahead, baseline * ahead, bootstrap)

    def overall(error: Numbers, baseline: Numbers) -> Estimate:
        return skill((error * ahead).sum(1), (baseline * ahead).sum(1), bootstrap)

    futures = psnr(errors.error)  # (N, S, H)
    other = psnr(found.other_actions[key]).mean(1)  # (N, H)
    fair = fair_error(errors.error_of_mean, errors.variance, S)
    over_copy = against(errors.error.mean(1), errors.copy)
    informed = against(fair, errors.average)
    return ObsQuality(
        image=key in found.images,
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
        spread_skill=_spread_skill(errors, found, bootstrap),
        actions=sensitivity(futures.mean(1), other, found.other_mask, bootstrap),
        actions_overall=bootstrap.ratio(
            np.where(found.other_mask, futures.mean(1) - other, 0).sum(1), found.other_mask.sum(1)
        ),
        usable=usable_horizon(over_copy),
        informed_steps=usable_horizon(informed),
        mostly_right=usable_horizon(informed.map(lambda share: share - MOSTLY)),
    )


def usable_steps(obs: Mapping[str, ObsQuality]) -> int:
    """Up to which step all predictions are better than the last frame and the average one."""
    return min(min(q.usable.last, q.informed_steps.last) for q in obs.values())


def trusted_steps(obs: Mapping[str, ObsQuality]) -> int:
    """Up to which step, of these, most of what varies is right."""
    return min(usable_steps(obs), *(q.mostly_right.last for q in obs.values()))


def _similarity(values: Numbers, mask: Flags, bootstrap: Bootstrap) -> Estimate:
    """NaN throughout, where SSIM is not defined."""
    if np.isnan(values).any():
        nothing = np.full(values.shape[1], np.nan)
        return Estimate(nothing, nothing, nothing)
    return bootstrap.mean(values, mask)


def _spread_skill(errors: ObsErrors, found: Evidence, bootstrap: Bootstrap) -> Estimate:
    ahead = found.ahead
    return spread_skill(
        errors.variance * ahead, errors.error_of_mean * ahead, found.samples, bootstrap
    )


def _overall(values: Numbers, found: Evidence, bootstrap: Bootstrap) -> Estimate:
    """The mean over all rows of all windows."""
    return bootstrap.ratio((values * found.mask).sum(1), found.mask.sum(1))


def _ends(found: Evidence, bootstrap: Bootstrap, steps: int = 0) -> EndingQuality | None:
    """Ends within the first imagined steps, or for 0, of all rows as they are seen."""
    if found.gamma is None:
        return None
    chosen = slice(found.context, found.context + steps) if steps else slice(None)
    discount = found.discount_imagined[:, :steps] if steps else found.discount_seen
    rows = (found.terminal, found.truncated, found.mask)
    terminal, truncated, mask = (x[:, chosen] for x in rows)
    probability = terminal_probability(discount, found.gamma)
    return ending_quality(terminal, truncated, probability, mask, bootstrap)


def _factors(frames: Frames, seed: int) -> dict[str, Factor]:
    if not frames.factors:
        return {}
    readable = {
        what: principal(x)
        for what, x in {
            "h": frames.deter,
            "z": frames.stoch,
            "h+z": np.concatenate([frames.deter, frames.stoch], 1),
            "pixels": frames.pixels,
        }.items()
    }
    enough = len(np.unique(frames.episode)) >= FEWEST_EPISODES
    return {
        name: Factor(
            codes=factor_information(frames.posterior, values, seed=seed)
            if frames.posterior is not None
            else None,
            probes={what: probe(x, values, frames.episode, seed) for what, x in readable.items()}
            if enough
            else {},
        )
        for name, values in frames.factors.items()
    }
