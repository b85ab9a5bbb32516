"""The values and reconstructions of an actor while it acts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.agent.actor_policy import ActorPolicy, Observation
from wmtk.models.conv import to_bytes


class ActorIntrospector:
    """The `PolicyIntrospector` of an actor with a critic and a world model."""

    def __init__(self, policy: ActorPolicy) -> None:
        self._policy = policy
        self.discount = policy.model.config.discount

    @torch.no_grad()
    def values(self, env_indices: Sequence[int]) -> NDArray[np.float32]:
        return _numpy(self._policy.behavior.critic(self._feat(env_indices)).squeeze(-1))

    @torch.no_grad()
    def rewards(self, env_indices: Sequence[int]) -> NDArray[np.float32]:
        return _numpy(self._policy.model.reward(self._feat(env_indices)))

    def transform_rewards(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        array: NDArray[np.float64] = self._policy.model.transformed(
            torch.from_numpy(rewards)
        ).numpy()
        return array

    def preprocess(self, obs: Observation) -> Observation:
        return self._policy.observations(obs)

    @torch.no_grad()
    def reconstructions(self, env_indices: Sequence[int]) -> dict[str, NDArray[np.uint8]]:
        decoded = self._policy.model.decode(self._feat(env_indices))
        return {key: to_bytes(image).cpu().numpy() for key, image in decoded.items()}

    def _feat(self, env_indices: Sequence[int]) -> Tensor:
        return self._policy.states(env_indices).feat


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.cpu().numpy()
    return array
