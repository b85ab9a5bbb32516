"""Looking into a trained actor while it plays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.agent.actor_policy import ActorPolicy, Observation
from wmtk.models.conv import to_bytes


class ActorIntrospector:
    """What an actor's critic and world model say of where it is: see wmtk.collecting.Mind."""

    def __init__(self, policy: ActorPolicy) -> None:
        self._policy = policy
        self.discount = policy.model.config.discount

    @torch.no_grad()
    def values(self, slots: Sequence[int]) -> NDArray[np.float32]:
        return _numpy(self._policy.behavior.critic(self._feat(slots)).squeeze(-1))

    @torch.no_grad()
    def rewards(self, slots: Sequence[int]) -> NDArray[np.float32]:
        return _numpy(self._policy.model.reward(self._feat(slots)))

    def transformed(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        array: NDArray[np.float64] = self._policy.model.transformed(
            torch.from_numpy(rewards)
        ).numpy()
        return array

    def preprocess(self, obs: Observation) -> Observation:
        return self._policy.observations(obs)

    @torch.no_grad()
    def images(self, slots: Sequence[int]) -> dict[str, NDArray[np.uint8]]:
        decoded = self._policy.model.decode(self._feat(slots))
        return {key: to_bytes(image).cpu().numpy() for key, image in decoded.items()}

    def _feat(self, slots: Sequence[int]) -> Tensor:
        return self._policy.states(slots).feat


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.cpu().numpy()
    return array
