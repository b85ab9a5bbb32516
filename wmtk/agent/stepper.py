"""Dreaming step by step: a model's states as small arrays, to go on from, to change, to look at."""

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
    """A loaded model as a world to play in.

    All random numbers come from the seeds that are passed in: the same calls give the same dream,
    and the first of several futures does not depend on how many others there are.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._model, self._device = loaded.model, loaded.device
        self._behavior = loaded.behavior if isinstance(loaded, LoadedAgent) else None

    @property
    def schema(self) -> Schema:
        return self.loaded.schema

    @property
    def latent(self) -> str:
        return self._model.config.rssm.latent

    @property
    def has_actor(self) -> bool:
        """Whether there is an actor."""
        return self._behavior is not None

    # --- where dreams begin ---

    @torch.no_grad()
    def observe(self, batch: Batch, seed: Sequence[int]) -> LatentState:
        """The states after the last row of windows (N, T, …) that are seen whole."""
        with fork_rng(_number(seed)):
            states = self._model.observe(self.loaded.batch_inputs(batch))
        return self._mind(states.at(-1))

    def preprocess(self, obs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Observations as the model sees them, to show beside its own."""
        return self.loaded.observations(obs)

    @torch.no_grad()
    def initial_state(self, seed: Sequence[int], temperature: float = 1.0) -> LatentState:
        """The first state of an episode that the model makes up."""
        nothing = torch.zeros(1, self.loaded.actions.size, device=self._device)
        return self._following(self._model.rssm.initial(1), nothing, seed, temperature)

    # --- going on ---

    @torch.no_grad()
    def step(
        self,
        mind: LatentState,
        actions: NDArray[Any],
        *,
        seed: Sequence[int],
        temperature: float = 1.0,
    ) -> LatentState:
        """The states after actions (S, …). A temperature of 0 takes the likeliest latents."""
        encoded = self.loaded.actions.encode(actions[:, None])[:, 0].to(self._device)
        return self._following(self._state(mind), encoded, seed, temperature)

    @torch.no_grad()
    def act(self, mind: LatentState, *, seed: Sequence[int], sample: bool = True) -> NDArray[Any]:
        """What the actor does in each of the states: (S, …)."""
        if self._behavior is None:
            raise RunError(
                f"{self.loaded.run.path} has no actor.",
                f"Train one: wmtk train-policy {shlex.quote(str(self.loaded.run.path))} --out …",
            )
        with fork_rng(_number(seed)):
            action = self._behavior.act(self._state(mind).feat, sample=sample)
        return self.loaded.actions.decode(action)

    # --- looking ---

    def transform_reward(self, reward: float) -> float:
        """A reward of the task in the unit in which the model expects rewards."""
        return float(self._model.transformed(torch.tensor(reward)))

    @torch.no_grad()
    def predict(self, mind: LatentState) -> Prediction:
        """Everything that the model says of states."""
        model, state = self._model, self._state(mind)
        feat, stats = state.feat, model.rssm.prior(state.deter)
        value = None if self._behavior is None else self._behavior.critic(feat).squeeze(-1)
        return Prediction(
            obs=decoded(model, feat),
            reward=model.reward(feat).cpu().numpy(),
            discount=model.discount(feat).cpu().numpy(),
            value=None if value is None else value.cpu().numpy(),
            prior=distributions(model, stats),
            entropy=model.rssm.latent.entropy(stats).cpu().numpy(),
        )

    @torch.no_grad()
    def decode(self, mind: LatentState) -> Mapping[str, NDArray[Any]]:
        """What states look like, and nothing else."""
        return decoded(self._model, self._state(mind).feat)

    # --- arrays and tensors ---

    def _following(
        self, state: State, action: Tensor, seed: Sequence[int], temperature: float
    ) -> LatentState:
        rssm = self._model.rssm
        deter = rssm.advance(state.deter, state.stoch, rssm.from_action(action))
        stats, latent = rssm.prior(deter), rssm.latent
        if temperature == 0:
            return self._mind(State(deter, latent.mode(stats), stats))
        with fork_rng(_number(seed)):
            noise = latent.noise(stats)
        if isinstance(latent, Gaussian):
            stoch = latent.draw(stats, noise * temperature)
        else:
            stoch = latent.draw(stats / temperature, noise)
        return self._mind(State(deter, stoch, stats))

    def _mind(self, state: State) -> LatentState:
        stoch, latent = state.stoch, self._model.rssm.latent
        codes = latent.logits(stoch).argmax(-1) if isinstance(latent, Categorical) else stoch
        dtype = np.float32 if isinstance(latent, Gaussian) else np.int16
        return LatentState(state.deter.cpu().numpy(), codes.cpu().numpy().astype(dtype))

    def _state(self, mind: LatentState) -> State:
        """The stats are those of nobody: whoever needs them computes the prior."""
        latent = self._model.rssm.latent
        deter = torch.from_numpy(mind.deter).to(self._device)
        codes = torch.from_numpy(mind.codes).to(self._device)
        if isinstance(latent, Categorical):
            stoch = F.one_hot(codes.long(), latent.classes).flatten(-2).to(deter.dtype)
        else:
            stoch = codes.to(deter.dtype)
        return State(deter, stoch, deter.new_zeros(*deter.shape[:-1], latent.stats_size))


def _number(seed: Sequence[int]) -> int:
    return int(np.random.SeedSequence(list(seed)).generate_state(1)[0])


def single_threaded(loaded: LoadedModel) -> ModelStepper:
    """A dreamer that computes with one core from now on, as does everything in this process.

    A step of the paper's size takes one core 14 ms, which is fast enough, and leaves the others to
    the browser and to whoever else uses the machine.
    """
    torch.set_num_threads(1)
    return ModelStepper(loaded)
