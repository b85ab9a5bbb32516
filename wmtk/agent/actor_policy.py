"""A trained actor as a policy, and the estimates of its critic and world model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.agent.batch_tensors import ActionCodec, to_tensor
from wmtk.datasets import Schema
from wmtk.errors import SchemaMismatchError
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.conv import to_bytes
from wmtk.models.rssm import State
from wmtk.models.world_model import WorldModel
from wmtk.observations import ObsCodec
from wmtk.runs.state_dict import fork_rng, load_rng_state, rng_state
from wmtk.spaces import flatten_value

Observation = Mapping[str, NDArray[Any]]  # leaves by key


class ActorPolicy:
    """The actor of a world model as a `wmtk.collecting.Policy` for N environments.

    The policy stores the latent state of each environment. To act in a single environment, call it
    with one observation, after `begin()` for each episode. It has a separate random-number
    generator, so that acting does not change the random numbers of training. The networks are not
    copied: updates of their weights take effect immediately.

    Example:
        >>> import wmtk
        >>> policy = wmtk.load("runs/policy").policy
        >>> env = wmtk.make_env("wmtk/Catch-v0")
        >>> obs, _ = env.reset(seed=0)
        >>> policy.begin()
        >>> action = policy(obs)
        >>> env.action_space.contains(action[()])
        True
    """

    needs_obs = True

    def __init__(
        self,
        model: WorldModel,
        actor_critic: ActorCritic,
        schema: Schema,
        *,
        observations: ObsCodec | None = None,
        sample: bool = True,
        seed: Sequence[int] = (0,),
        name: str = "actor",
        checkpoint: str = "",
    ) -> None:
        self.model, self.actor_critic = model, actor_critic
        self.observations = observations or ObsCodec(schema.obs)
        self.schema = schema.only(self.observations.sources)
        self.sample = sample  # actions; latent states are always sampled
        self.name, self.checkpoint = name, checkpoint
        self.seed = tuple(seed)
        self._codec = ActionCodec(schema.action)
        self._device = next(model.parameters()).device
        self._state = model.rssm.initial(0)  # (N, …)
        self._action = torch.zeros(0, self._codec.size, device=self._device)  # of the last step
        self._is_first = torch.zeros(0, dtype=torch.bool, device=self._device)
        with fork_rng(int(np.random.SeedSequence(list(seed)).generate_state(1)[0])):
            self._rng_state = rng_state()

    def __repr__(self) -> str:
        return (
            f"ActorPolicy({self.name!r}, sample={self.sample}, seed={self.seed}, "
            f"{self.schema.spaces}, device='{self._device}')"
        )

    def begin(self, env_index: int = 0) -> None:
        """Start an episode in an environment."""
        self._add_envs(env_index + 1)
        self._is_first[env_index] = True

    def __call__(self, obs: Any) -> NDArray[Any]:
        """The action for the next observation of environment 0, in the environment's format."""
        assert self.schema.structure is not None
        return self.act([0], [flatten_value(self.schema.structure, obs)])[0]

    def states(self, env_indices: Sequence[int]) -> State:
        """The posterior states (N, …) after the last observations of environments."""
        return State(*(part[list(env_indices)] for part in self._state))

    @torch.no_grad()
    def act(self, env_indices: Sequence[int], obs: Sequence[Observation]) -> list[NDArray[Any]]:
        """The actions for the next observations of N environments."""
        self._add_envs(max(env_indices) + 1)
        rows = torch.tensor(env_indices, device=self._device)
        images = {key: self._stack(key, obs) for key in self.schema.obs}
        previous = State(*(part[rows] for part in self._state))
        with fork_rng(None):
            load_rng_state(self._rng_state)
            embed = self.model.encode(images)[:, 0]
            state = self.model.rssm.observe_step(
                previous, self._action[rows], embed, self._is_first[rows]
            )
            action = self.actor_critic.act(state.feat, sample=self.sample)
            self._rng_state = rng_state()
        for part, new in zip(self._state, state, strict=True):
            part[rows] = new
        self._action[rows] = action
        self._is_first[rows] = False
        return list(self._codec.decode(action))

    def _stack(self, key: str, obs: Sequence[Observation]) -> Tensor:
        """One key of all observations, (B, 1, …)."""
        spec = self.schema.obs[key]
        for leaves in obs:
            if key not in leaves or np.shape(leaves[key]) != spec.shape:
                got = f"has shape {np.shape(leaves[key])}" if key in leaves else "is missing"
                raise SchemaMismatchError(
                    f"The observation {key!r} {got}; the actor takes shape {spec.shape}.",
                    "Use the task that the model was trained on, with the same options.",
                )
        rows = np.stack([np.asarray(leaves[key], spec.dtype) for leaves in obs])
        return to_tensor(self.observations.rows(key, rows), self._device).unsqueeze(1)

    def _add_envs(self, count: int) -> None:
        more = count - len(self._is_first)
        if more <= 0:
            return
        added = self.model.rssm.initial(more)
        self._state = State(*(torch.cat(pair) for pair in zip(self._state, added, strict=True)))
        self._action = torch.cat([self._action, self._action.new_zeros(more, self._codec.size)])
        self._is_first = torch.cat([self._is_first, self._is_first.new_ones(more)])


class ActorIntrospector:
    """The `PolicyIntrospector` of an actor with a critic and a world model."""

    def __init__(self, policy: ActorPolicy) -> None:
        self._policy = policy
        self.discount = policy.model.config.discount

    @torch.no_grad()
    def values(self, env_indices: Sequence[int]) -> NDArray[np.float32]:
        return _numpy(self._policy.actor_critic.critic(self._feat(env_indices)).squeeze(-1))

    @torch.no_grad()
    def rewards(self, env_indices: Sequence[int]) -> NDArray[np.float32]:
        return _numpy(self._policy.model.reward(self._feat(env_indices)))

    def transform_rewards(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        array: NDArray[np.float64] = self._policy.model.transform_reward(
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
