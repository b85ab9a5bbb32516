"""Imagination step by step: latent states as NumPy arrays that can be stored and changed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from wmtk.agent.load import LoadedAgent, LoadedModel
from wmtk.agent.outputs import LatentState, Prediction
from wmtk.agent.predictions import decoded, distributions
from wmtk.datasets import Batch, Schema
from wmtk.errors import RunError
from wmtk.models.distributions import Categorical, Gaussian
from wmtk.models.rssm import State
from wmtk.runs.state_dict import fork_rng


class ModelStepper:
    """Steps of imagination in a loaded model.

    All random numbers come from the `seed` arguments: the same calls return the same states, and
    the first of several rollouts does not depend on their number.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._model, self._device = loaded.model, loaded.device
        self._actor_critic = loaded.actor_critic if isinstance(loaded, LoadedAgent) else None

    @property
    def schema(self) -> Schema:
        return self.loaded.schema

    @property
    def latent(self) -> str:
        return self._model.config.rssm.latent

    @property
    def has_actor(self) -> bool:
        """Whether the model has an actor."""
        return self._actor_critic is not None

    # --- first states ---

    @torch.no_grad()
    def observe(self, batch: Batch, seed: Sequence[int]) -> LatentState:
        """The posterior states after the last row of windows (N, T, …)."""
        with fork_rng(_number(seed)):
            states = self._model.observe(self.loaded.batch_inputs(batch))
        return self._latent_state(states.at(-1))

    def preprocess(self, obs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Preprocess observations, which are then comparable to the model's outputs."""
        return self.loaded.observations(obs)

    @torch.no_grad()
    def initial_state(self, seed: Sequence[int], temperature: float = 1.0) -> LatentState:
        """The first state of an imagined episode."""
        no_action = torch.zeros(1, self.loaded.actions.size, device=self._device)
        return self._next(self._model.rssm.initial(1), no_action, seed, temperature)

    # --- steps ---

    @torch.no_grad()
    def step(
        self,
        state: LatentState,
        actions: NDArray[Any],
        *,
        seed: Sequence[int],
        temperature: float = 1.0,
    ) -> LatentState:
        """The states after actions (S, …). A temperature of 0 takes the most likely latents."""
        encoded = self.loaded.actions.encode(actions[:, None])[:, 0].to(self._device)
        return self._next(self._tensors(state), encoded, seed, temperature)

    @torch.no_grad()
    def act(self, state: LatentState, *, seed: Sequence[int], sample: bool = True) -> NDArray[Any]:
        """The actor's actions in states: (S, …)."""
        if self._actor_critic is None:
            raise RunError(
                f"{self.loaded.run.path} has no actor.",
                f"Train one: wmtk train-policy {shlex.quote(str(self.loaded.run.path))} --out …",
            )
        with fork_rng(_number(seed)):
            action = self._actor_critic.act(self._tensors(state).feat, sample=sample)
        return self.loaded.actions.decode(action)

    # --- outputs ---

    def transform_reward(self, reward: float) -> float:
        """Convert a reward of the task to the unit of the reward head."""
        return float(self._model.transform_reward(torch.tensor(reward)))

    @torch.no_grad()
    def predict(self, state: LatentState) -> Prediction:
        """The predictions of all heads for states."""
        model, tensors = self._model, self._tensors(state)
        feat, prior = tensors.feat, model.rssm.prior(tensors.deter)
        value = None if self._actor_critic is None else self._actor_critic.critic(feat).squeeze(-1)
        return Prediction(
            obs=decoded(model, feat),
            reward=model.reward(feat).cpu().numpy(),
            discount=model.discount(feat).cpu().numpy(),
            value=None if value is None else value.cpu().numpy(),
            prior=distributions(model, prior),
            entropy=model.rssm.latent.entropy(prior).cpu().numpy(),
        )

    @torch.no_grad()
    def decode(self, state: LatentState) -> Mapping[str, NDArray[Any]]:
        """The observations of states, without the other predictions."""
        return decoded(self._model, self._tensors(state).feat)

    # --- arrays and tensors ---

    def _next(
        self, state: State, action: Tensor, seed: Sequence[int], temperature: float
    ) -> LatentState:
        rssm = self._model.rssm
        deter = rssm.advance(state.deter, state.stoch, rssm.from_action(action))
        prior, latent = rssm.prior(deter), rssm.latent
        if temperature == 0:
            return self._latent_state(State(deter, latent.mode(prior), prior))
        with fork_rng(_number(seed)):
            noise = latent.noise(prior)
        if isinstance(latent, Gaussian):
            stoch = latent.draw(prior, noise * temperature)
        else:
            stoch = latent.draw(prior / temperature, noise)
        return self._latent_state(State(deter, stoch, prior))

    def _latent_state(self, state: State) -> LatentState:
        stoch, latent = state.stoch, self._model.rssm.latent
        codes = latent.per_variable(stoch).argmax(-1) if isinstance(latent, Categorical) else stoch
        dtype = np.float32 if isinstance(latent, Gaussian) else np.int16
        return LatentState(state.deter.cpu().numpy(), codes.cpu().numpy().astype(dtype))

    def _tensors(self, state: LatentState) -> State:
        """The state as tensors. `dist_params` are zeros, since no step uses them."""
        latent = self._model.rssm.latent
        deter = torch.from_numpy(state.deter).to(self._device)
        codes = torch.from_numpy(state.codes).to(self._device)
        if isinstance(latent, Categorical):
            stoch = F.one_hot(codes.long(), latent.classes[0]).flatten(-2).to(deter.dtype)
        else:
            stoch = codes.to(deter.dtype)
        return State(deter, stoch, deter.new_zeros(*deter.shape[:-1], latent.params_size))


def _number(seed: Sequence[int]) -> int:
    return int(np.random.SeedSequence(list(seed)).generate_state(1)[0])


def single_threaded(loaded: LoadedModel) -> ModelStepper:
    """Make a stepper and set torch to one thread in this process.

    A step of the paper's model takes 14 ms on one core; the other cores stay free.
    """
    torch.set_num_threads(1)
    return ModelStepper(loaded)
