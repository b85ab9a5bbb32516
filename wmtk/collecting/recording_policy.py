"""What a policy thinks while it plays: its critic's values, and what its world model sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmtk.collecting.policies import Observation, Policy
from wmtk.datasets import Episode
from wmtk.reprs import brief_repr

Floats = NDArray[np.float64]
RECORDED = 0  # the slot whose first episode is recorded


class PolicyIntrospector(Protocol):
    """Looks into a policy with a world model, as it is after its last actions in N slots."""

    discount: float  # γ

    def values(self, slots: Sequence[int]) -> NDArray[Any]:
        """What the critic expects, (N,): the reward of the state and all after it, discounted."""

    def rewards(self, slots: Sequence[int]) -> NDArray[Any]:
        """What the model takes the last reward to have been, (N,)."""

    def transformed(self, rewards: Floats) -> Floats:
        """Rewards of the task in the unit of `values` and `rewards`."""

    def preprocess(self, obs: Observation) -> Observation:
        """Observations (T, …) of the task as the model sees them."""

    def images(self, slots: Sequence[int]) -> Mapping[str, NDArray[np.uint8]]:
        """What the model takes the slots to look like, each (N, H, W, C)."""


@dataclass(frozen=True)
class Recording:
    """An episode as its policy lived it. Of a policy that is no open book there is the episode."""

    episode: Episode
    policy: str
    discount: float | None = None
    values: Floats | None = None  # (T+1,)
    rewards: Floats | None = None  # (T+1,) as the model saw them
    true_rewards: Floats | None = None  # (T+1,) that came, in the unit of the model's
    images: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # (T+1, H, W, C)
    seen: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # what they show

    __repr__ = brief_repr


class RecordingPolicy:
    """Another policy, whose mind is looked into after each of its actions."""

    needs_obs = True

    def __init__(self, policy: Policy, mind: PolicyIntrospector, *, record: bool = False) -> None:
        self.name, self.checkpoint = policy.name, policy.checkpoint
        self._policy = policy
        self._mind = mind
        self._values: dict[int, list[float]] = {}  # of the episodes under way
        self._record = record
        self._rewards: list[float] = []
        self._images: list[dict[str, NDArray[np.uint8]]] = []

    def begin(self, slot: int) -> None:
        self._policy.begin(slot)
        self._values[slot] = []
        if slot == RECORDED:
            self._rewards, self._images = [], []

    def act(self, slots: Sequence[int], obs: Sequence[Observation]) -> list[NDArray[Any]]:
        actions = self._policy.act(slots, obs)
        for slot, value in zip(slots, self._mind.values(slots), strict=True):
            self._values[slot].append(float(value))
        if self._record and RECORDED in slots:
            self._rewards.append(float(self._mind.rewards([RECORDED])[0]))
            shown = self._mind.images([RECORDED])
            self._images.append({key: rows[0] for key, rows in shown.items()})
        return actions

    def finish(self, slot: int, episode: Episode) -> Floats:
        """The values of all T+1 states of an episode that has just ended in a slot."""
        # Nobody acts at the end of an episode, but the policy has to see it to judge it.
        self.act([slot], [{key: rows[-1] for key, rows in episode.obs.items()}])
        values = np.array(self._values[slot])
        assert values.shape == episode.reward.shape, (values.shape, episode.reward.shape)
        return values

    def true_rewards(self, episode: Episode) -> Floats:
        """The rewards of an episode in the unit of its policy's expectations."""
        return self._mind.transformed(episode.reward.astype(np.float64))

    def recording(self, episode: Episode, values: Floats) -> Recording:
        """What was seen and thought in the recorded slot's episode, which `finish` has seen."""
        self._record = False
        seen = self._mind.preprocess(episode.obs)
        return Recording(
            episode,
            self.name,
            self._mind.discount,
            values,
            np.array(self._rewards),
            self.true_rewards(episode),
            {key: np.stack([shown[key] for shown in self._images]) for key in self._images[0]},
            {key: seen[key] for key in self._images[0]},
        )


def discounted_returns(
    episode: Episode, discount: float, values: Floats, rewards: Floats | None = None
) -> Floats:
    """What came of each of the T+1 states, which their values are to predict: Σ γ^k · r_{t+k}.

    As in those, the reward of arriving at a state counts. A critic knows no time limits: what it
    expects of the last state stands for what would have come after one. `rewards` are those of
    the episode in the critic's unit, if that is another one.
    """
    came = (episode.reward if rewards is None else rewards).astype(np.float64)
    if episode.truncated and not episode.terminated:
        came[-1] = values[-1]
    for t in reversed(range(len(came) - 1)):
        came[t] += discount * came[t + 1]
    return came
