"""Recorded windows with the predictions of a model: open loop, reconstructed or under a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Batch
from wmtk.stats import Numbers
from wmtk.viz.draw.actions import ActionLook
from wmtk.viz.evaluation.measurements import Predictor, in_model_units
from wmtk.viz.metrics.endings import terminal_probability
from wmtk.viz.metrics.rewards import expected_return

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedAgent


@dataclass(frozen=True)
class Rollout:
    """One window of T rows, of which the model observes the first `context`, with S futures.

    Rows of the context hold reconstructions, equal in all futures. Unknown true numbers are NaN,
    and `truth` may end with the context.
    """

    title: str
    context: int
    truth: Mapping[str, NDArray[Any]]  # each (T, …)
    predicted: Mapping[str, NDArray[Any]]  # each (S, T, …)
    reward: Numbers  # (T,)
    reward_predicted: Numbers  # (S, T)
    end: Numbers  # (T,), 1 where the task is over
    end_predicted: Numbers | None  # (S, T), its probability; None if it is not learned
    models: tuple[str, ...] = ()  # the model of each future, if there are several models
    value: Numbers | None = None  # (S, T), of the critic; None without one
    actions: tuple[str, ...] = ()  # (T,), names of the actions that led to the rows of future 0
    dream: bool = False  # a policy acts in imagination; there is no truth after the context

    @property
    def rows(self) -> int:
        return len(self.reward)

    @property
    def samples(self) -> int:
        return len(self.reward_predicted)


def open_loop_rollouts(
    model: Predictor, batch: Batch, *, context: int, samples: int = 1, seed: int = 0
) -> list[Rollout]:
    """Rollouts of windows (N, T, …): `context` rows are observed and the others imagined."""
    batch = model.preprocess(batch)
    posterior = model.observe_batch(batch, seed)
    batch = in_model_units(batch, posterior)
    horizon = int(batch.reward.shape[1]) - context
    prediction = model.predict_batch(
        batch, context=context, horizon=horizon, samples=samples, seed=seed
    )

    def joined(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
        """(T, …) up to the context and (S, H, …) after it: (S, T, …)."""
        start = np.broadcast_to(before[None, :context], (samples, context, *before.shape[1:]))
        return np.concatenate([start, after], 1)

    return [
        _rollout(
            batch,
            number,
            context,
            {
                key: joined(posterior.obs[key][number], prediction.obs[key][number])
                for key in posterior.obs
            },
            joined(posterior.reward[number], prediction.reward[number]),
            joined(posterior.discount[number], prediction.discount[number]),
            model.gamma,
        )
        for number in range(len(batch.reward))
    ]


def reconstruction_rollouts(model: Predictor, batch: Batch, seed: int = 0) -> list[Rollout]:
    """Rollouts of windows (N, T, …), of which the model observes every row."""
    batch = model.preprocess(batch)
    posterior = model.observe_batch(batch, seed)
    batch = in_model_units(batch, posterior)
    return [
        _rollout(
            batch,
            number,
            int(batch.reward.shape[1]),
            {key: rows[number][None] for key, rows in posterior.obs.items()},
            posterior.reward[number][None],
            posterior.discount[number][None],
            model.gamma,
        )
        for number in range(len(batch.reward))
    ]


def side_by_side(rollouts: Sequence[Rollout], models: Sequence[str]) -> Rollout:
    """Merge the first futures of several models on the same window into one rollout."""
    first = rollouts[0]
    ends = [rollout.end_predicted for rollout in rollouts]
    learned = [part[:1] for part in ends if part is not None]
    return replace(
        first,
        predicted={
            key: np.concatenate([rollout.predicted[key][:1] for rollout in rollouts])
            for key in first.predicted
        },
        reward_predicted=np.concatenate([rollout.reward_predicted[:1] for rollout in rollouts]),
        end_predicted=np.concatenate(learned) if len(learned) == len(ends) else None,
        models=tuple(models),
    )


def _rollout(
    batch: Batch,
    number: int,
    context: int,
    predicted: Mapping[str, NDArray[Any]],
    reward: NDArray[Any],
    discount: NDArray[Any],
    gamma: float | None,
) -> Rollout:
    """The rollout of one window, without rows that do not exist."""
    T = int(batch.mask[number].sum())
    first = int(batch.start[number])
    return Rollout(
        title=f"episode {batch.episode[number]}, steps {first} to {first + T - 1}",
        context=min(context, T),
        truth={key: rows[number, :T] for key, rows in batch.obs.items()},
        predicted={key: rows[:, :T] for key, rows in predicted.items()},
        reward=batch.reward[number, :T].astype(np.float64),
        reward_predicted=reward[:, :T].astype(np.float64),
        end=batch.terminated[number, :T].astype(np.float64),
        end_predicted=None if gamma is None else terminal_probability(discount[:, :T], gamma),
    )


@dataclass(frozen=True)
class ImaginedEpisode:
    """S rollouts of a policy inside of the model from one start."""

    rollout: Rollout
    imagined_return: Numbers  # (S,), discounted rewards plus the discounted value of the last row
    value: Numbers  # (S,), of the first imagined row


def policy_rollouts(
    agent: LoadedAgent,
    batch: Batch,
    *,
    horizon: int,
    samples: int = 1,
    sample: bool = False,
    seed: int = 0,
    actions: ActionLook | None = None,
) -> list[ImaginedEpisode]:
    """Imagine episodes with the policy of an agent, after observing windows (N, C, …).

    Args:
        agent: A model with an actor and a critic.
        batch: The windows to start from.
        horizon: Imagined steps.
        samples: Futures S of each start.
        sample: Whether to sample actions; otherwise the most likely ones are taken.
        seed: Seed of latents and actions.
        actions: Names of the actions.
    """
    C = int(batch.reward.shape[1])
    action_look = actions or ActionLook(agent.schema.action)
    batch = agent.preprocess(batch)
    posterior = agent.observe_batch(batch, seed)
    batch = in_model_units(batch, posterior)
    values = agent.value_of(posterior.deter, posterior.stoch)  # (N, C)
    dream = agent.rollout_policy(
        batch, context=C, horizon=horizon, samples=samples, sample=sample, seed=seed
    )
    episodes = []
    for number in range(len(batch.reward)):
        first = int(batch.start[number])
        reward = _joined(posterior.reward[number], dream.reward[number])
        discount = _joined(posterior.discount[number], dream.discount[number])
        rollout = Rollout(
            title=f"episode {batch.episode[number]}, from step {first + C - 1}",
            context=C,
            truth={key: rows[number] for key, rows in batch.obs.items()},
            predicted={
                key: _joined(posterior.obs[key][number], dream.obs[key][number])
                for key in posterior.obs
            },
            reward=_unknown_after(batch.reward[number], horizon),
            reward_predicted=reward.astype(np.float64),
            end=_unknown_after(batch.terminated[number], horizon),
            end_predicted=None
            if agent.gamma is None
            else terminal_probability(discount, agent.gamma),
            value=_joined(values[number], dream.value[number]).astype(np.float64),
            actions=(*[""] * C, *(action_look.text(action) for action in dream.action[number, 0])),
            dream=True,
        )
        imagined_return = expected_return(
            dream.reward[number], dream.discount[number], dream.value[number]
        )
        episodes.append(
            ImaginedEpisode(rollout, imagined_return, dream.value[number, :, 0].astype(np.float64))
        )
    return episodes


def _joined(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
    """Concatenate (C, …), repeated S times, and (S, H, …) to (S, C+H, …)."""
    start = np.broadcast_to(before, (len(after), *before.shape))
    return np.concatenate([start, after], 1)


def _unknown_after(rows: NDArray[Any], horizon: int) -> Numbers:
    return np.concatenate([rows.astype(np.float64), np.full(horizon, np.nan)])
