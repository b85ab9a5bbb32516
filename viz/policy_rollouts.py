"""A policy inside of its world model: it begins where recorded episodes were, then goes its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import Floats, PolicyRollout
from wmtk.datasets import Batch
from wmtk.stats import Numbers
from wmtk.viz.draw.actions import ActionLook
from wmtk.viz.evidence import Predictor, as_learned
from wmtk.viz.metrics.endings import terminal_probability
from wmtk.viz.metrics.rewards import expected_return
from wmtk.viz.rollouts import Rollout


class PolicyPredictor(Predictor, Protocol):
    """A model with an actor and a critic; what `wmtk.load` gives back of a policy is one."""

    def value_of(self, deter: NDArray[Any], stoch: NDArray[Any]) -> Floats:
        """What the critic expects of states (…, D) and (…, Z)."""

    def rollout_policy(
        self,
        batch: Batch,
        *,
        context: int,
        horizon: int,
        samples: int = 1,
        sample: bool = False,
        seed: int = 0,
    ) -> PolicyRollout:
        """Windows whose first rows are seen, and in which the actor then plays on."""


@dataclass(frozen=True)
class ImaginedEpisode:
    """One start, what is drawn of it, and what the dream brings."""

    rollout: Rollout
    brought: Numbers  # (S,), imagined rewards, discounted, and the critic's value at the end
    expected: Numbers  # (S,), what the critic expected of the first imagined row


def imagined_episodes(
    model: PolicyPredictor,
    batch: Batch,
    *,
    horizon: int,
    samples: int = 1,
    sample: bool = False,
    seed: int = 0,
    actions: ActionLook | None = None,
) -> list[ImaginedEpisode]:
    """A dream from each window (N, C, …), all rows of which are seen first.

    `sample` draws actions instead of taking the likeliest; `actions` says how they are called.
    """
    C = int(batch.reward.shape[1])
    look = actions or ActionLook(model.schema.action)
    batch = model.preprocess(batch)
    seen = model.observe_batch(batch, seed)
    batch = as_learned(batch, seen)
    before = model.value_of(seen.deter, seen.stoch)  # (N, C)
    after = model.rollout_policy(
        batch, context=C, horizon=horizon, samples=samples, sample=sample, seed=seed
    )
    found = []
    for number in range(len(batch.reward)):
        first = int(batch.start[number])
        reward = _joined(seen.reward[number], after.reward[number])
        discount = _joined(seen.discount[number], after.discount[number])
        rollout = Rollout(
            title=f"episode {batch.episode[number]}, from step {first + C - 1}",
            context=C,
            truth={key: rows[number] for key, rows in batch.obs.items()},
            shown={key: _joined(seen.obs[key][number], after.obs[key][number]) for key in seen.obs},
            reward=_unknown_after(batch.reward[number], horizon),
            reward_shown=reward.astype(np.float64),
            end=_unknown_after(batch.terminated[number], horizon),
            end_shown=None if model.gamma is None else terminal_probability(discount, model.gamma),
            value=_joined(before[number], after.value[number]).astype(np.float64),
            actions=(*[""] * C, *(look.text(action) for action in after.action[number, 0])),
            dream=True,
        )
        came = expected_return(after.reward[number], after.discount[number], after.value[number])
        found.append(ImaginedEpisode(rollout, came, after.value[number, :, 0].astype(np.float64)))
    return found


def _joined(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
    """(C, …), the same in each future, and (S, H, …): (S, C+H, …)."""
    start = np.broadcast_to(before, (len(after), *before.shape))
    return np.concatenate([start, after], 1)


def _unknown_after(rows: NDArray[Any], horizon: int) -> Numbers:
    return np.concatenate([rows.astype(np.float64), np.full(horizon, np.nan)])
