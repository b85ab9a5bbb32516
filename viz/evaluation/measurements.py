"""Measurements of a model on recorded windows, from which all metrics are computed.

Predictions of a few windows at a time are reduced to errors, so that memory holds the recorded
windows and numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import Floats, OpenLoop, Posterior
from wmtk.datasets import Batch, Schema
from wmtk.stats import Numbers
from wmtk.viz.evaluation.obs_errors import ObsErrors, Scale, mean_error, obs_errors, stack_errors
from wmtk.viz.metrics.divergences import (
    divergence,
    entropy,
    gaussian_divergence,
    gaussian_entropy,
)
from wmtk.viz.metrics.futures import other_windows
from wmtk.viz.metrics.rewards import discount_before

SAMPLES = 5
MOST_FRAMES = 1000  # for probes
MOST_FACTORS = 16  # components of `info` that probes are fitted for

Flags = NDArray[np.bool_]


class Predictor(Protocol):
    """The methods of a model that metrics and rollouts call; `wmtk.load` returns such a model."""

    @property
    def schema(self) -> Schema:
        """Spaces of observations and actions."""

    @property
    def gamma(self) -> float | None:
        """The discount of a step that does not end the task; None if discounts are not learned."""

    @property
    def policy_horizon(self) -> int:
        """Imagined steps from each start in the training of a policy."""

    def preprocess(self, batch: Batch) -> Batch:
        """Windows with preprocessed observations, with which predictions are compared."""

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        """Posterior states and reconstructions of all rows of windows."""

    def predict_batch(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, seed: int = 0
    ) -> OpenLoop:
        """Predictions after the first `context` rows of windows, with the recorded actions."""


@dataclass(frozen=True)
class Frames:
    """F rows of all windows with their posterior states."""

    episode: NDArray[np.int64]  # (F,)
    deter: Floats  # (F, D)
    stoch: Floats  # (F, Z)
    posterior: Floats | None  # (F, V, K), None if the latents are not discrete
    pixels: NDArray[Any]  # (F, P), observations
    factors: dict[str, NDArray[Any]]  # each (F,), components of `info` that vary


@dataclass(frozen=True)
class Measurements:
    """Measurements on N windows of T = C + H rows: C of context, H imagined S times."""

    context: int
    horizon: int
    samples: int
    episode: NDArray[np.int64]  # (N,)
    mask: Flags  # (N, T), which rows exist
    obs: dict[str, ObsErrors]
    # Errors (N, S, H) with the actions of other windows and the same random numbers.
    other_actions: dict[str, Numbers]
    other_mask: Flags  # (N, H), the rows at which both windows exist
    images: frozenset[str]  # observation keys that are images
    gamma: float | None
    policy_horizon: int
    transformed: bool  # whether rewards are as the model transforms them
    reward: Numbers  # (N, T), true
    reward_observed: Numbers  # (N, T), predicted from posterior states
    reward_imagined: Numbers  # (N, H), the mean over futures
    # (N, H), rewards times the product of discounts before them; sums are discounted returns.
    discounted: Numbers
    discounted_imagined: Numbers
    terminal: Flags  # (N, T)
    truncated: Flags  # (N, T)
    discount_observed: Numbers  # (N, T)
    discount_imagined: Numbers  # (N, H)
    kl: Numbers  # (N, T), nats
    entropy_posterior: Numbers  # (N, T)
    entropy_prior: Numbers  # (N, T)
    latent: str
    posterior: Floats | None  # (rows, V, K), of all rows that exist; None if not discrete
    prior: Floats | None
    frames: Frames

    @property
    def ahead(self) -> Flags:
        """(N, H), the imagined rows that exist."""
        return self.mask[:, self.context :]

    def complete(self, steps: int) -> Flags:
        """(N,), windows with `steps` imagined rows or an earlier end of the task."""
        ended = self.terminal[:, self.context : self.context + steps].any(1)
        return np.asarray(self.ahead[:, steps - 1] | ended)


def in_model_units(batch: Batch, posterior: Posterior) -> Batch:
    """Windows with rewards transformed as the model learns them."""
    if posterior.true_reward is None:
        return batch
    return replace(batch, reward=posterior.true_reward)


def measure(
    model: Predictor,
    windows: Sequence[Batch],
    *,
    context: int,
    samples: int = SAMPLES,
    seed: int = 0,
    on_window: Callable[[int, int], None] = lambda done, total: None,
) -> Measurements:
    """Run a model on windows, batch by batch.

    Args:
        model: The model, or anything with the attributes of `Predictor`.
        windows: Batches of windows (n, T, …).
        context: Rows of each window that the model observes; the others are imagined.
        samples: Futures S imagined of each window.
        seed: Seed of latents and of the shuffled actions.
        on_window: Called with the number of finished windows and of all.
    """
    windows = [model.preprocess(batch) for batch in windows]
    specs = model.schema.obs
    images = frozenset(key for key, spec in specs.items() if spec.is_image)
    scales = {
        key: Scale.of(key in images, (batch.obs[key][batch.mask] for batch in windows))
        for key in specs
    }
    total = sum(len(batch.reward) for batch in windows)
    every = max(1, sum(int(batch.mask.sum()) for batch in windows) // MOST_FRAMES)
    actions, other_mask = _swapped_actions(windows, context, seed)
    parts, done = [], 0
    for number, batch in enumerate(windows):
        part = _Part(model, batch, scales, context, samples, seed + number, every)
        end = done + len(batch.reward)
        parts.append(part.measure(actions[done:end] if total > 1 else None))
        done = end
        on_window(done, total)
    joined: dict[str, Any] = {name: np.concatenate([p[name] for p in parts]) for name in _JOINED}
    return Measurements(
        context=context,
        horizon=other_mask.shape[1],
        samples=samples,
        obs={key: stack_errors([e for p in parts for e in p["obs"][key]]) for key in scales},
        other_actions={key: np.concatenate([p["other"][key] for p in parts]) for key in scales},
        other_mask=other_mask,
        images=images,
        gamma=model.gamma,
        policy_horizon=model.policy_horizon,
        transformed=any(part["transformed"] for part in parts),
        latent=parts[0]["latent"],
        posterior=_joined(part["posterior"] for part in parts),
        prior=_joined(part["prior"] for part in parts),
        frames=_frames([part["frames"] for part in parts]),
        **joined,
    )


_JOINED = (
    *("episode", "mask", "reward", "reward_observed", "reward_imagined", "terminal", "truncated"),
    *("discounted", "discounted_imagined"),
    *("discount_observed", "discount_imagined", "kl", "entropy_posterior", "entropy_prior"),
)


@dataclass(frozen=True)
class _Part:
    """The measurements of a few windows."""

    model: Predictor
    batch: Batch
    scales: dict[str, Scale]
    context: int
    samples: int
    seed: int
    every: int  # stride of the frames that probes use

    @property
    def horizon(self) -> int:
        return int(self.batch.reward.shape[1]) - self.context

    def measure(self, other_actions: NDArray[Any] | None) -> dict[str, Any]:
        posterior = self.model.observe_batch(self.batch, self.seed)
        batch = in_model_units(self.batch, posterior)
        imagined = self._imagine(batch)
        discrete = posterior.latent != "gaussian"
        kl, entropy_posterior, entropy_prior = _uncertainty(posterior)
        discounted, discounted_imagined = self._discounted(batch, imagined)
        return {
            "episode": batch.episode,
            "mask": batch.mask,
            "obs": {key: self._errors(key, posterior, imagined) for key in self.scales},
            "other": self._other_errors(other_actions),
            "reward": batch.reward.astype(np.float64),
            "reward_observed": posterior.reward,
            "reward_imagined": imagined.reward.mean(1),
            "discounted": discounted,
            "discounted_imagined": discounted_imagined,
            "transformed": not np.array_equal(batch.reward, self.batch.reward),
            "terminal": batch.terminated & batch.mask,
            "truncated": batch.truncated & batch.mask,
            "discount_observed": posterior.discount,
            "discount_imagined": imagined.discount.mean(1),
            "kl": kl,
            "entropy_posterior": entropy_posterior,
            "entropy_prior": entropy_prior,
            "latent": posterior.latent,
            "posterior": posterior.posterior[batch.mask] if discrete else None,
            "prior": posterior.prior[batch.mask] if discrete else None,
            "frames": self._frames(posterior),
        }

    def _imagine(self, batch: Batch) -> OpenLoop:
        return self.model.predict_batch(
            batch,
            context=self.context,
            horizon=self.horizon,
            samples=self.samples,
            seed=self.seed,
        )

    def _discounted(self, batch: Batch, imagined: OpenLoop) -> tuple[Numbers, Numbers]:
        """True and predicted rewards (N, H) times the discounts before them; means over futures.

        Where discounts are learned, imagination continues after an end of the task, as in the
        training of a policy: rewards predicted there count unless predicted discounts are 0.
        """
        mask, reward = batch.mask[:, self.context :], batch.reward[:, self.context :]
        expected = discount_before(imagined.discount)  # (N, S, H)
        predicted = (imagined.reward * expected).mean(1)
        if self.model.gamma is None:
            return reward * expected[:, 0] * mask, predicted * mask
        ended = np.logical_or.accumulate((batch.terminated & batch.mask)[:, self.context :], 1)
        true = reward * self.model.gamma ** np.arange(self.horizon) * mask
        return true, predicted * (mask | ended)

    def _errors(self, key: str, posterior: Posterior, imagined: OpenLoop) -> list[ObsErrors]:
        scale, rows, C = self.scales[key], self.batch.obs[key], self.context
        windows = zip(rows, imagined.obs[key], posterior.obs[key], strict=True)
        return [
            obs_errors(scale, true[C:], futures, decoded[C:], true[C - 1], scale.baseline)
            for true, futures, decoded in windows
        ]

    def _other_errors(self, actions: NDArray[Any] | None) -> dict[str, Numbers]:
        """The errors (n, S, H) with the actions of other windows."""
        N = len(self.batch.reward)
        if actions is None:
            return {key: np.full((N, self.samples, self.horizon), np.nan) for key in self.scales}
        imagined = self._imagine(replace(self.batch, action=actions))
        errors = {}
        for key, scale in self.scales.items():
            pairs = zip(imagined.obs[key], self.batch.obs[key][:, self.context :], strict=True)
            errors[key] = np.stack(
                [
                    mean_error(np.square(scale.numbers(futures, 2) - scale.numbers(truth, 1)))
                    for futures, truth in pairs
                ]
            )
        return errors

    def _frames(self, posterior: Posterior) -> Frames:
        mask = self.batch.mask.copy()
        mask[:, np.arange(mask.shape[1]) % self.every != 0] = False
        rows = int(mask.sum())
        obs = [self.batch.obs[key][mask].reshape(rows, -1) for key in self.scales]
        episode = np.broadcast_to(self.batch.episode[:, None], mask.shape)[mask]
        factors = dict(_factors(self.batch, mask))
        return Frames(
            episode=episode,
            deter=posterior.deter[mask],
            stoch=posterior.stoch[mask],
            posterior=None if posterior.latent == "gaussian" else posterior.posterior[mask],
            pixels=np.concatenate(obs, 1),  # bytes stay bytes unless mixed with floats
            factors=factors,
        )


def _uncertainty(states: Posterior) -> tuple[Numbers, Numbers, Numbers]:
    """KL[posterior ‖ prior] and the entropies of both, each (N, T) in nats."""
    post, prior = states.posterior.astype(np.float64), states.prior.astype(np.float64)
    if states.latent == "gaussian":
        (m, s), (n, r) = np.moveaxis(post, -1, 0), np.moveaxis(prior, -1, 0)
        terms = gaussian_divergence(m, s, n, r), gaussian_entropy(s), gaussian_entropy(r)
    else:
        terms = divergence(post, prior), entropy(post), entropy(prior)
    kl, entropy_posterior, entropy_prior = (np.asarray(x.sum(-1)) for x in terms)
    return kl, entropy_posterior, entropy_prior


def _swapped_actions(
    windows: Sequence[Batch], context: int, seed: int
) -> tuple[NDArray[Any], Flags]:
    """Actions (N, T, …), from other windows after the context, and where both exist (N, H)."""
    action = np.concatenate([batch.action for batch in windows])
    mask = np.concatenate([batch.mask for batch in windows])[:, context:]
    if len(action) < 2:
        return action, np.zeros_like(mask)
    other = other_windows(len(action), np.random.default_rng(seed))
    swapped = action.copy()
    swapped[:, context:] = action[other, context:]
    return swapped, mask & mask[other]


def _factors(batch: Batch, mask: Flags) -> Iterator[tuple[str, NDArray[Any]]]:
    """The numeric components of `info` by name, each (F,)."""
    for key, rows in batch.info.items():
        if rows.dtype.kind not in "biuf":
            continue
        flat = rows[mask].reshape(int(mask.sum()), -1)
        for index, column in enumerate(flat.T):
            yield (key if flat.shape[1] == 1 else f"{key}[{index}]"), column


def _frames(parts: Sequence[Frames]) -> Frames:
    def joined(get: Callable[[Frames], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([get(part) for part in parts])

    columns = {
        name: np.concatenate([part.factors[name] for part in parts]) for name in parts[0].factors
    }
    varying = {
        name: column
        for name, column in columns.items()
        if np.isfinite(column).all() and len(np.unique(column)) > 1
    }
    return Frames(
        episode=joined(lambda part: part.episode),
        deter=joined(lambda part: part.deter),
        stoch=joined(lambda part: part.stoch),
        posterior=_joined(part.posterior for part in parts),
        pixels=joined(lambda part: part.pixels),
        factors=dict(list(varying.items())[:MOST_FACTORS]),
    )


def _joined(parts: Iterator[Floats | None]) -> Floats | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None
