"""What a model makes of recorded windows, reduced to the numbers that metrics are made of.

The model looks at a few windows at a time, and what it shows is dropped once the errors are known:
of all windows together, only the recorded bytes are held in memory.
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
from wmtk.viz.metrics.divergences import (
    divergence,
    entropy,
    gaussian_divergence,
    gaussian_entropy,
)
from wmtk.viz.metrics.futures import other_windows
from wmtk.viz.metrics.rewards import discount_before
from wmtk.viz.obs_errors import ObsErrors, Scale, mean_error, obs_errors, stack_errors

SAMPLES = 5
MOST_FRAMES = 1000  # that are kept for probes
MOST_FACTORS = 16  # numbers of `info` that are looked for in the states

Flags = NDArray[np.bool_]


class Predictor(Protocol):
    """A model that can be looked at; what `wmtk.load` gives back is one."""

    @property
    def schema(self) -> Schema:
        """The spaces of what it sees and does."""

    @property
    def gamma(self) -> float | None:
        """The discount of a step that ends nothing; None where discounts are not learned."""

    @property
    def policy_horizon(self) -> int:
        """The steps that a policy imagines when it is trained in the model."""

    def preprocess(self, batch: Batch) -> Batch:
        """Windows with observations as the model sees them; all that follows compares with them."""

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        """Windows seen whole."""

    def predict_batch(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, seed: int = 0
    ) -> OpenLoop:
        """Windows imagined after their first rows, with the recorded actions."""


@dataclass(frozen=True)
class Frames:
    """F rows of all windows with the states that the model has after seeing them."""

    episode: NDArray[np.int64]  # (F,)
    deter: Floats  # (F, D)
    stoch: Floats  # (F, Z)
    posterior: Floats | None  # (F, V, K), None if the latents are not discrete
    pixels: NDArray[Any]  # (F, P), what was seen
    factors: dict[str, NDArray[Any]]  # each (F,), numbers of `info` that vary


@dataclass(frozen=True)
class Evidence:
    """N windows of `context` rows that were seen and H that were imagined S times: T = C + H."""

    context: int
    horizon: int
    samples: int
    episode: NDArray[np.int64]  # (N,)
    mask: Flags  # (N, T), which rows exist
    obs: dict[str, ObsErrors]
    # Errors (N, S, H) with the actions of other windows, drawn with the same random numbers.
    other_actions: dict[str, Numbers]
    other_mask: Flags  # (N, H), where these exist
    images: frozenset[str]  # the keys that are pictures
    gamma: float | None
    policy_horizon: int
    transformed: bool  # whether rewards are in a unit of the model's own
    reward: Numbers  # (N, T), true
    reward_seen: Numbers  # (N, T), read off states that saw the row
    reward_imagined: Numbers  # (N, H), the mean over futures
    # (N, H), rewards times all discounts before them: their sums are discounted returns.
    discounted: Numbers
    discounted_imagined: Numbers
    terminal: Flags  # (N, T)
    truncated: Flags  # (N, T)
    discount_seen: Numbers  # (N, T)
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
        """(N, H), which of the imagined rows exist."""
        return self.mask[:, self.context :]

    def complete(self, steps: int) -> Flags:
        """(N,), which windows have so many imagined rows, or reach an end of the task before."""
        ended = self.terminal[:, self.context : self.context + steps].any(1)
        return np.asarray(self.ahead[:, steps - 1] | ended)


def as_learned(batch: Batch, seen: Posterior) -> Batch:
    """Windows with their rewards in the unit of the model's, so that the two can be compared."""
    return batch if seen.true_reward is None else replace(batch, reward=seen.true_reward)


def gather(
    model: Predictor,
    windows: Sequence[Batch],
    *,
    context: int,
    samples: int = SAMPLES,
    seed: int = 0,
    on_window: Callable[[int, int], None] = lambda done, total: None,
) -> Evidence:
    """Show windows to a model, batch by batch, and keep the numbers.

    `on_window` hears how many windows are done, and of how many.
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
        look = _Look(model, batch, scales, context, samples, seed + number, every)
        end = done + len(batch.reward)
        parts.append(look.part(actions[done:end] if total > 1 else None))
        done = end
        on_window(done, total)
    found: dict[str, Any] = {name: np.concatenate([p[name] for p in parts]) for name in _JOINED}
    return Evidence(
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
        **found,
    )


_JOINED = (
    *("episode", "mask", "reward", "reward_seen", "reward_imagined", "terminal", "truncated"),
    *("discounted", "discounted_imagined"),
    *("discount_seen", "discount_imagined", "kl", "entropy_posterior", "entropy_prior"),
)


@dataclass(frozen=True)
class _Look:
    """A look at a few windows."""

    model: Predictor
    batch: Batch
    scales: dict[str, Scale]
    context: int
    samples: int
    seed: int
    every: int  # of how many frames one is kept

    @property
    def horizon(self) -> int:
        return int(self.batch.reward.shape[1]) - self.context

    def part(self, other_actions: NDArray[Any] | None) -> dict[str, Any]:
        seen = self.model.observe_batch(self.batch, self.seed)
        batch = as_learned(self.batch, seen)
        imagined = self._imagine(batch)
        discrete = seen.latent != "gaussian"
        kl, after, before = _uncertainty(seen)
        discounted, discounted_imagined = self._discounted(batch, imagined)
        return {
            "episode": batch.episode,
            "mask": batch.mask,
            "obs": {key: self._errors(key, seen, imagined) for key in self.scales},
            "other": self._other(other_actions),
            "reward": batch.reward.astype(np.float64),
            "reward_seen": seen.reward,
            "reward_imagined": imagined.reward.mean(1),
            "discounted": discounted,
            "discounted_imagined": discounted_imagined,
            "transformed": not np.array_equal(batch.reward, self.batch.reward),
            "terminal": batch.terminated & batch.mask,
            "truncated": batch.truncated & batch.mask,
            "discount_seen": seen.discount,
            "discount_imagined": imagined.discount.mean(1),
            "kl": kl,
            "entropy_posterior": after,
            "entropy_prior": before,
            "latent": seen.latent,
            "posterior": seen.posterior[batch.mask] if discrete else None,
            "prior": seen.prior[batch.mask] if discrete else None,
            "frames": self._frames(seen),
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
        """Rewards (N, H) times the discounts before them, the true ones and the mean of futures.

        Where discounts are learned, an end of the task does not end imagination, as for a policy:
        what the model expects beyond it counts, unless its discounts are 0 there.
        """
        mask, reward = batch.mask[:, self.context :], batch.reward[:, self.context :]
        expected = discount_before(imagined.discount)  # (N, S, H)
        found = (imagined.reward * expected).mean(1)
        if self.model.gamma is None:
            return reward * expected[:, 0] * mask, found * mask
        ended = np.logical_or.accumulate((batch.terminated & batch.mask)[:, self.context :], 1)
        true = reward * self.model.gamma ** np.arange(self.horizon) * mask
        return true, found * (mask | ended)

    def _errors(self, key: str, seen: Posterior, imagined: OpenLoop) -> list[ObsErrors]:
        scale, rows, C = self.scales[key], self.batch.obs[key], self.context
        guess = scale.guess
        return [
            obs_errors(scale, true[C:], futures, shown[C:], true[C - 1], guess)
            for true, futures, shown in zip(rows, imagined.obs[key], seen.obs[key], strict=True)
        ]

    def _other(self, actions: NDArray[Any] | None) -> dict[str, Numbers]:
        """The errors when the actions are those of other windows."""
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

    def _frames(self, seen: Posterior) -> Frames:
        mask = self.batch.mask.copy()
        mask[:, np.arange(mask.shape[1]) % self.every != 0] = False
        rows = int(mask.sum())
        obs = [self.batch.obs[key][mask].reshape(rows, -1) for key in self.scales]
        episode = np.broadcast_to(self.batch.episode[:, None], mask.shape)[mask]
        factors = dict(_factors(self.batch, mask))
        return Frames(
            episode=episode,
            deter=seen.deter[mask],
            stoch=seen.stoch[mask],
            posterior=None if seen.latent == "gaussian" else seen.posterior[mask],
            pixels=np.concatenate(obs, 1),  # bytes stay bytes; a mix becomes numbers
            factors=factors,
        )


def _uncertainty(seen: Posterior) -> tuple[Numbers, Numbers, Numbers]:
    """KL[posterior ‖ prior] and the entropies of both, each (N, T) in nats."""
    post, prior = seen.posterior.astype(np.float64), seen.prior.astype(np.float64)
    if seen.latent == "gaussian":
        (m, s), (n, r) = np.moveaxis(post, -1, 0), np.moveaxis(prior, -1, 0)
        found = gaussian_divergence(m, s, n, r), gaussian_entropy(s), gaussian_entropy(r)
    else:
        found = divergence(post, prior), entropy(post), entropy(prior)
    kl, after, before = (np.asarray(x.sum(-1)) for x in found)
    return kl, after, before


def _swapped_actions(
    windows: Sequence[Batch], context: int, seed: int
) -> tuple[NDArray[Any], Flags]:
    """Actions (N, T, …), after the context those of other windows, and where these exist (N, H)."""
    action = np.concatenate([batch.action for batch in windows])
    mask = np.concatenate([batch.mask for batch in windows])[:, context:]
    if len(action) < 2:
        return action, np.zeros_like(mask)
    other = other_windows(len(action), np.random.default_rng(seed))
    swapped = action.copy()
    swapped[:, context:] = action[other, context:]
    return swapped, mask & mask[other]


def _factors(batch: Batch, mask: Flags) -> Iterator[tuple[str, NDArray[Any]]]:
    """The numbers of `info` by name, each (F,)."""
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
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None
