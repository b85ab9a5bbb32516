"""All metrics of a model on recorded windows, and the definitions of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wmtk.stats import CONFIDENCE, RESAMPLES, Numbers
from wmtk.viz.evaluation.measurements import Frames, Measurements
from wmtk.viz.evaluation.obs_quality import (
    ObsQuality,
    obs_quality,
    reliable_steps,
    steps_above_baselines,
)
from wmtk.viz.metrics import (
    Bootstrap,
    CodeUsage,
    EndingQuality,
    Estimate,
    FactorInformation,
    Probe,
    ReturnQuality,
    RewardQuality,
    code_usage,
    ending_quality,
    factor_information,
    principal,
    probe,
    return_quality,
    reward_quality,
    terminal_probability,
)

FEWEST_EPISODES = 3  # for probes: one each to fit, to tune and to test on

DEFINITIONS = {
    "PSNR": "10·log10(1/MSE) in dB, of pixels from 0 to 1, mean over frames",
    "SNR": "10·log10(1/MSE) in dB, of numbers in units of their deviation, mean over rows",
    "best": "the same, of the best future of each window",
    "ceiling": "the same, of the reconstruction of the frame",
    "copy": "the same, of repeating the last observed frame",
    "average": "the same, of the mean frame of the data",
    "SSIM": "structural similarity of one future; 1 is equality",
    "skill": "1 − MSE / MSE of copying the last observed frame",
    "informed": "1 − MSE of the futures' mean / MSE of the mean frame",
    "reliable": "the last step up to which intervals have skill above 0 and informed above 1/2",
    "moving": "skill on pixels that differ from the last observed frame",
    "spread/skill": "spread of futures / error of their mean; below 1 the model is overconfident",
    "actions": "dB lost with the actions of other windows; near 0, the model ignores actions",
    "return": "sum of rewards over imagined steps with the recorded actions; discounted by the "
    "predicted discounts, the true one by γ until the end of the task",
    "bias": "the mean of predicted − true",
}


@dataclass(frozen=True)
class Factor:
    """How much of a known factor the codes and the latent states contain."""

    codes: FactorInformation | None  # None if the latents are not discrete
    probes: dict[str, Probe]  # by input: h, z, h+z, or pixels


@dataclass(frozen=True)
class ImaginedReturns:
    """True and imagined returns over the first steps after the context.

    Windows that are truncated earlier are left out: their true return is unknown.
    """

    steps: int
    windows: int  # with that many steps, or with an earlier end of the task
    discounted: ReturnQuality
    undiscounted: ReturnQuality  # over existing rows


@dataclass(frozen=True)
class ModelMetrics:
    """All metrics of one model; fields of `Estimate` hold a value for each step.

    `…_observed` are computed from posterior states, `…_imagined` over all imagined steps and
    `…_policy` over the imagination horizon of a policy.
    """

    windows: int
    episodes: int
    frames: int
    context: int
    horizon: int
    policy_horizon: int  # imagined steps in the training of a policy
    samples: int
    latents: str  # "sampled"
    confidence: float
    resamples: int
    obs: dict[str, ObsQuality]
    reliable_steps: int  # the last step up to which predictions are reliable; 0 for none
    steps_above_baselines: int  # the same, up to which they are better than both baselines
    reward_observed: RewardQuality
    reward_imagined: RewardQuality
    reward_policy: RewardQuality
    returns: ImaginedReturns
    returns_policy: ImaginedReturns
    transformed: bool  # whether the model learns transformed rewards, as with tanh
    ends: int  # rows at which the task ended
    ends_observed: EndingQuality | None  # None without a discount head
    ends_imagined: EndingQuality | None
    ends_policy: EndingQuality | None
    kl: Estimate  # nats, before free nats and balancing
    kl_at: Estimate  # (T,), by row of the window
    entropy_posterior: Estimate
    entropy_prior: Estimate
    latent: str
    codes: CodeUsage | None  # None if the latents are not discrete
    prior_usage: Numbers | None  # (V, K)
    factors: dict[str, Factor]


def compute_metrics(
    data: Measurements,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    factors: bool = True,
    on_part: Callable[[str], None] = lambda name: None,
) -> ModelMetrics:
    """Compute all metrics from measurements.

    Args:
        data: Errors, rewards, discounts and latents of N windows.
        confidence: Coverage of the bootstrap intervals.
        resamples: Bootstrap resamples of episodes.
        seed: Seed of the bootstrap and of the probes.
        factors: Whether to fit probes for the factors in `info`, the slowest part.
        on_part: Called with the name of each part before it is computed.
    """
    bootstrap = Bootstrap(data.episode, confidence=confidence, resamples=resamples, seed=seed)
    on_part("observations")
    obs = {key: obs_quality(key, data, bootstrap) for key in data.obs}
    on_part("rewards and ends")
    ahead, C = data.ahead, data.context
    policy_steps = min(data.policy_horizon, data.horizon)

    observed = reward_quality(data.reward, data.reward_observed, data.mask, bootstrap)

    def rewards(steps: int) -> RewardQuality:
        true, imagined = (
            data.reward[:, C : C + steps],
            data.reward_imagined[:, :steps],
        )
        return reward_quality(true, imagined, ahead[:, :steps], bootstrap, sparse=observed.sparse)

    def returns(steps: int) -> ImaginedReturns:
        return imagined_returns(data, steps, confidence=confidence, resamples=resamples, seed=seed)

    on_part("codes and factors")
    return ModelMetrics(
        windows=len(data.episode),
        episodes=bootstrap.episodes,
        frames=int(data.mask.sum()),
        context=C,
        horizon=data.horizon,
        policy_horizon=data.policy_horizon,
        samples=data.samples,
        latents="sampled",
        confidence=confidence,
        resamples=resamples,
        obs=obs,
        reliable_steps=reliable_steps(obs),
        steps_above_baselines=steps_above_baselines(obs),
        reward_observed=observed,
        reward_imagined=rewards(data.horizon),
        reward_policy=rewards(policy_steps),
        returns=returns(data.horizon),
        returns_policy=returns(policy_steps),
        transformed=data.transformed,
        ends=int(data.terminal.sum()),
        ends_observed=_ends(data, bootstrap),
        ends_imagined=_ends(data, bootstrap, data.horizon),
        ends_policy=_ends(data, bootstrap, policy_steps),
        kl=_overall(data.kl, data, bootstrap),
        kl_at=bootstrap.mean(data.kl, data.mask),
        entropy_posterior=_overall(data.entropy_posterior, data, bootstrap),
        entropy_prior=_overall(data.entropy_prior, data, bootstrap),
        latent=data.latent,
        codes=None if data.posterior is None else code_usage(data.posterior),
        prior_usage=None if data.prior is None else data.prior.mean(0, np.float64),
        factors=_factors(data.frames, seed) if factors else {},
    )


def imagined_returns(
    data: Measurements,
    steps: int,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ImaginedReturns:
    """Compare the returns of the first `steps` imagined steps, at most the horizon."""
    chosen, ahead = data.complete(steps), data.ahead
    bootstrap = Bootstrap(
        data.episode[chosen], confidence=confidence, resamples=resamples, seed=seed
    )

    def quality(true: Numbers, imagined: Numbers) -> ReturnQuality:
        return return_quality(
            true[chosen, :steps].sum(1), imagined[chosen, :steps].sum(1), bootstrap
        )

    return ImaginedReturns(
        steps=steps,
        windows=int(chosen.sum()),
        discounted=quality(data.discounted, data.discounted_imagined),
        undiscounted=quality(
            data.reward[:, data.context :] * ahead,
            data.reward_imagined * ahead,
        ),
    )


def _overall(values: Numbers, data: Measurements, bootstrap: Bootstrap) -> Estimate:
    """The mean over all rows of all windows."""
    return bootstrap.ratio((values * data.mask).sum(1), data.mask.sum(1))


def _ends(data: Measurements, bootstrap: Bootstrap, steps: int = 0) -> EndingQuality | None:
    """Ends within the first imagined `steps`; 0 takes all rows, from posterior states."""
    if data.gamma is None:
        return None
    chosen = slice(data.context, data.context + steps) if steps else slice(None)
    discount = data.discount_imagined[:, :steps] if steps else data.discount_observed
    rows = (data.terminal, data.truncated, data.mask)
    terminal, truncated, mask = (x[:, chosen] for x in rows)
    probability = terminal_probability(discount, data.gamma)
    return ending_quality(terminal, truncated, probability, mask, bootstrap)


def _factors(frames: Frames, seed: int) -> dict[str, Factor]:
    if not frames.factors:
        return {}
    inputs = {
        name: principal(x)
        for name, x in {
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
            probes={kind: probe(x, values, frames.episode, seed) for kind, x in inputs.items()}
            if enough
            else {},
        )
        for name, values in frames.factors.items()
    }
