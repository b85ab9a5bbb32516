"""Recorded windows beside what a model makes of them: seen, then imagined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Batch
from wmtk.stats import Numbers
from wmtk.viz.evidence import Predictor, as_learned
from wmtk.viz.metrics.endings import terminal_probability


@dataclass(frozen=True)
class Rollout:
    """One window of T rows, of which the model saw the first `context`; S futures of the rest.

    In the rows that it saw, `shown` has reconstructions, the same in each future. Where nothing is
    known, numbers are NaN, and `truth` may end with the context.
    """

    title: str
    context: int
    truth: Mapping[str, NDArray[Any]]  # each (T, …)
    shown: Mapping[str, NDArray[Any]]  # each (S, T, …)
    reward: Numbers  # (T,)
    reward_shown: Numbers  # (S, T)
    end: Numbers  # (T,), 1 where the task is over
    end_shown: Numbers | None  # (S, T), the probability of that; None if it is not learned
    models: tuple[str, ...] = ()  # whose futures these are, where they are of several models
    value: Numbers | None = None  # (S, T), what a critic expects, where there is one
    actions: tuple[str, ...] = ()  # in words, those that led to the rows of the first future
    dream: bool = False  # a policy acts in imagination: there is no truth after the context

    @property
    def rows(self) -> int:
        return len(self.reward)

    @property
    def samples(self) -> int:
        return len(self.reward_shown)


def open_loop(
    model: Predictor, batch: Batch, *, context: int, samples: int = 1, seed: int = 0
) -> list[Rollout]:
    """Windows of which the model sees `context` rows and imagines the others."""
    batch = model.preprocess(batch)
    seen = model.observe_batch(batch, seed)
    batch = as_learned(batch, seen)
    horizon = int(batch.reward.shape[1]) - context
    ahead = model.predict_batch(batch, context=context, horizon=horizon, samples=samples, seed=seed)

    def joined(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
        """(T, …) up to the context and (S, H, …) after it: (S, T, …)."""
        start = np.broadcast_to(before[None, :context], (samples, context, *before.shape[1:]))
        return np.concatenate([start, after], 1)

    return [
        _rollout(
            batch,
            number,
            context,
            {key: joined(seen.obs[key][number], ahead.obs[key][number]) for key in seen.obs},
            joined(seen.reward[number], ahead.reward[number]),
            joined(seen.discount[number], ahead.discount[number]),
            model.gamma,
        )
        for number in range(len(batch.reward))
    ]


def reconstructions(model: Predictor, batch: Batch, seed: int = 0) -> list[Rollout]:
    """Windows of which the model sees every row."""
    batch = model.preprocess(batch)
    seen = model.observe_batch(batch, seed)
    batch = as_learned(batch, seen)
    return [
        _rollout(
            batch,
            number,
            int(batch.reward.shape[1]),
            {key: rows[number][None] for key, rows in seen.obs.items()},
            seen.reward[number][None],
            seen.discount[number][None],
            model.gamma,
        )
        for number in range(len(batch.reward))
    ]


def side_by_side(rollouts: Sequence[Rollout], models: Sequence[str]) -> Rollout:
    """The first futures of several models of the same window, as one rollout."""
    first = rollouts[0]
    ends = [rollout.end_shown for rollout in rollouts]
    known = [part[:1] for part in ends if part is not None]
    return replace(
        first,
        shown={
            key: np.concatenate([rollout.shown[key][:1] for rollout in rollouts])
            for key in first.shown
        },
        reward_shown=np.concatenate([rollout.reward_shown[:1] for rollout in rollouts]),
        end_shown=np.concatenate(known) if len(known) == len(ends) else None,
        models=tuple(models),
    )


def _rollout(
    batch: Batch,
    number: int,
    context: int,
    shown: Mapping[str, NDArray[Any]],
    reward: NDArray[Any],
    discount: NDArray[Any],
    gamma: float | None,
) -> Rollout:
    """One window, without the rows that do not exist."""
    T = int(batch.mask[number].sum())
    first = int(batch.start[number])
    return Rollout(
        title=f"episode {batch.episode[number]}, steps {first} to {first + T - 1}",
        context=min(context, T),
        truth={key: rows[number, :T] for key, rows in batch.obs.items()},
        shown={key: rows[:, :T] for key, rows in shown.items()},
        reward=batch.reward[number, :T].astype(np.float64),
        reward_shown=reward[:, :T].astype(np.float64),
        end=batch.terminated[number, :T].astype(np.float64),
        end_shown=None if gamma is None else terminal_probability(discount[:, :T], gamma),
    )
