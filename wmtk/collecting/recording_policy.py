"""Record the values and reconstructions of a policy with a world model."""

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
RECORDED_ENV = 0  # its first episode is recorded


class PolicyIntrospector(Protocol):
    """Estimates of a policy with a world model, after its last actions in N environments."""

    discount: float  # γ

    def values(self, env_indices: Sequence[int]) -> NDArray[Any]:
        """The critic's values (N,): the discounted sum of the state's reward and all later ones."""

    def rewards(self, env_indices: Sequence[int]) -> NDArray[Any]:
        """The model's estimates of the last rewards (N,)."""

    def transform_rewards(self, rewards: Floats) -> Floats:
        """Rewards of the task in the unit of `values` and `rewards`."""

    def preprocess(self, obs: Observation) -> Observation:
        """Observations (T, …) of the task as inputs of the model."""

    def reconstructions(self, env_indices: Sequence[int]) -> Mapping[str, NDArray[np.uint8]]:
        """The model's reconstructions of the images, each (N, H, W, C)."""


@dataclass(frozen=True)
class EpisodeRecording:
    """An episode, and the estimates of its policy at each of its T+1 rows.

    The other fields are None or empty for policies without a world model.
    """

    episode: Episode
    policy: str
    discount: float | None = None
    values: Floats | None = None  # (T+1,)
    rewards: Floats | None = None  # (T+1,), the model's estimates
    true_rewards: Floats | None = None  # (T+1,), in the unit of the estimates
    reconstructions: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # (T+1, H, W, C)
    images: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # inputs of the model

    __repr__ = brief_repr


class RecordingPolicy:
    """Wraps a policy and records the estimates of `introspector` after each action."""

    needs_obs = True

    def __init__(
        self, policy: Policy, introspector: PolicyIntrospector, *, record: bool = False
    ) -> None:
        self.name, self.checkpoint = policy.name, policy.checkpoint
        self._policy = policy
        self._introspector = introspector
        self._values: dict[int, list[float]] = {}  # of the running episodes
        self._record = record
        self._rewards: list[float] = []
        self._reconstructions: list[dict[str, NDArray[np.uint8]]] = []

    def begin(self, env_index: int) -> None:
        self._policy.begin(env_index)
        self._values[env_index] = []
        if env_index == RECORDED_ENV:
            self._rewards, self._reconstructions = [], []

    def act(self, env_indices: Sequence[int], obs: Sequence[Observation]) -> list[NDArray[Any]]:
        actions = self._policy.act(env_indices, obs)
        for env_index, value in zip(
            env_indices, self._introspector.values(env_indices), strict=True
        ):
            self._values[env_index].append(float(value))
        if self._record and RECORDED_ENV in env_indices:
            self._rewards.append(float(self._introspector.rewards([RECORDED_ENV])[0]))
            images = self._introspector.reconstructions([RECORDED_ENV])
            self._reconstructions.append({key: rows[0] for key, rows in images.items()})
        return actions

    def finish(self, env_index: int, episode: Episode) -> Floats:
        """The values (T+1,) of an episode that has just ended in an environment."""
        # The action for the last observation is not used; `act` updates the state for its value.
        self.act([env_index], [{key: rows[-1] for key, rows in episode.obs.items()}])
        values = np.array(self._values[env_index])
        assert values.shape == episode.reward.shape, (values.shape, episode.reward.shape)
        return values

    def discounted_returns(self, episode: Episode, values: Floats) -> Floats:
        """The discounted returns (T+1,) of an episode, in the unit of its values."""
        rewards = self._true_rewards(episode)
        return discounted_returns(episode, self._introspector.discount, values, rewards)

    def _true_rewards(self, episode: Episode) -> Floats:
        """The rewards of an episode in the unit of the policy's values."""
        return self._introspector.transform_rewards(episode.reward.astype(np.float64))

    def recording(self, episode: Episode, values: Floats) -> EpisodeRecording:
        """The recording of the episode that was last passed to `finish`."""
        self._record = False
        inputs = self._introspector.preprocess(episode.obs)
        keys = self._reconstructions[0]
        return EpisodeRecording(
            episode,
            self.name,
            self._introspector.discount,
            values,
            np.array(self._rewards),
            self._true_rewards(episode),
            {key: np.stack([images[key] for images in self._reconstructions]) for key in keys},
            {key: inputs[key] for key in keys},
        )


def discounted_returns(
    episode: Episode, discount: float, values: Floats, rewards: Floats | None = None
) -> Floats:
    """The discounted return (T+1,) of each state: Σ γ^k · r_{t+k}.

    As in `values`, the reward of arriving at a state is included. Values of a critic do not account
    for time limits: at a truncation, the value of the last state replaces the missing rewards.
    `rewards` are those of the episode in the unit of `values`, if the units differ.
    """
    returns = (episode.reward if rewards is None else rewards).astype(np.float64)
    if episode.truncated and not episode.terminated:
        returns[-1] = values[-1]
    for t in reversed(range(len(returns) - 1)):
        returns[t] += discount * returns[t + 1]
    return returns
