"""`wmtk.load`: a trained model, or an agent, to use from Python, in numpy arrays."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wmtk.agent.actor_networks import EXPLORER, TASK
from wmtk.agent.actor_policy import ActorPolicy
from wmtk.agent.batch_tensors import ActionCodec, to_inputs, whole_episode
from wmtk.agent.compat import restore_world_model
from wmtk.agent.device import choose_device
from wmtk.agent.open_loop import open_loop
from wmtk.agent.outputs import OpenLoop, PolicyRollout, Posterior
from wmtk.agent.policy_rollout import rollout_policy
from wmtk.agent.predictions import decoded, observe_batch, predict_batch
from wmtk.agent.saved_sizes import require_saved_sizes
from wmtk.datasets import Batch, Dataset, Episode
from wmtk.datasets.schema_match import require_episode, require_fit
from wmtk.errors import RunError, UsageError
from wmtk.models.actions import actions_of
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.reprs import brief_repr
from wmtk.runs.checkpoint import Checkpoint
from wmtk.runs.model_spaces import spaces_of
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors, load_module_state


@dataclass(frozen=True)
class EpisodePrediction:
    """What the model expects of H steps, S times over: arrays (S, H, …)."""

    obs: dict[str, NDArray[Any]]  # images as bytes, everything else as numbers
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]

    __repr__ = brief_repr


class LoadedModel:
    """A world model with its weights, ready to look at episodes and to imagine."""

    def __init__(self, run: Run, saved: Checkpoint, device: str) -> None:
        self.run = run
        self.config = run.settings
        # The spaces of data and environments that it fits, and of what it sees and shows of them.
        self.data_schema, self.observations = spaces_of(run, self.config)
        self.schema = replace(self.data_schema, obs=self.observations.specs)
        self.device = torch.device(device)
        self.actions = ActionCodec(self.schema.action)
        self.step, self.hash = saved.step, saved.hash
        self.model = WorldModel(self.config.model, self.observations.specs, self.actions.size)
        with checkpoint_errors(saved.path):
            restore_world_model(self.model, saved.tensors)
        self.model.to(self.device).eval()

    def __repr__(self) -> str:
        count = sum(weight.numel() for module in self._modules for weight in module.parameters())
        return (
            f"{type(self).__name__}({str(self.run.path)!r}, kind={self.run.kind!r}, "
            f"step={self.step}, task={self.run.task!r}, {self.schema.spaces}, "
            f"parameters={count:,}, device='{self.device}')"
        )

    @property
    def _modules(self) -> list[nn.Module]:
        return [self.model]

    def require_fit(self, dataset: Dataset) -> None:
        """Refuse a dataset whose spaces are not the model's."""
        require_fit(self.data_schema, dataset.schema, f"{self.run.path} and {dataset.path}")

    def preprocess(self, batch: Batch) -> Batch:
        """Windows with observations as the model sees them, to compare with what it shows."""
        return replace(batch, obs=self.observations(batch.obs))

    def episode_inputs(self, episode: Episode) -> Inputs:
        """An episode as a batch of one."""
        require_episode(self.data_schema, episode)
        return self.batch_inputs(whole_episode(episode))

    def batch_inputs(self, batch: Batch) -> Inputs:
        """Windows as tensors."""
        return to_inputs(batch, self.observations, self.actions, self.device)

    @torch.no_grad()
    def encode(self, episode: Episode) -> NDArray[np.float32]:
        """The embeddings of what is seen: (T+1, E)."""
        return _numpy(self.model.encode(self.episode_inputs(episode).obs)[0])

    @torch.no_grad()
    def observe(self, episode: Episode) -> State:
        """The posterior states of an episode: (1, T+1, …)."""
        return self.model.observe(self.episode_inputs(episode))

    @torch.no_grad()
    def reconstruct(self, episode: Episode) -> dict[str, NDArray[Any]]:
        """What the model makes of each row after seeing it: (T+1, …), images as bytes."""
        return decoded(self.model, self.observe(episode).feat[0])

    @torch.no_grad()
    def imagine(self, state: State, actions: NDArray[Any]) -> State:
        """The states (N, H, …) that follow states (N, …) under actions (N, H, …).

        `observe(episode).at(-1)` is such a state, with N = 1.
        """
        actions = np.asarray(actions)
        wanted = (len(state.deter), actions.shape[1] if actions.ndim > 1 else 0)
        if state.deter.ndim != 2 or actions.shape != (*wanted, *self.schema.action.shape):
            raise UsageError(
                f"States of shape {tuple(state.deter.shape)} and actions of shape {actions.shape} "
                "do not go together.",
                "Give states (N, …) and actions (N, H, …): observe(episode).at(t) is one state.",
            )
        return self.model.rssm.imagine(state, self.actions.encode(actions).to(self.device))

    @torch.no_grad()
    def predict(
        self, episode: Episode, *, context: int = 5, horizon: int = 15, samples: int = 1
    ) -> EpisodePrediction:
        """Look at `context` rows, then go on blindly with the recorded actions."""
        rows = len(episode.reward)
        if context < 1 or horizon < 1 or context + horizon > rows:
            raise UsageError(
                f"{context} rows of context and {horizon} of prediction do not fit {rows} rows.",
                "Choose a longer episode or a shorter horizon.",
            )
        _, imagined = open_loop(
            self.model,
            self.episode_inputs(episode),
            context=context,
            horizon=horizon,
            samples=samples,
        )
        feat = imagined.feat
        return EpisodePrediction(
            decoded(self.model, feat),
            _numpy(self.model.reward(feat)),
            _numpy(self.model.discount(feat)),
        )

    @property
    def gamma(self) -> float | None:
        """The discount of a step that ends nothing; None where discounts are not learned."""
        config = self.config.model
        return config.discount if config.discount_scale else None

    @property
    def policy_horizon(self) -> int:
        """The steps that a policy imagines when it is trained in the model."""
        return self.config.behavior.horizon

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        """What the model makes of windows that it sees whole, for metrics and pictures."""
        return observe_batch(self.model, self.batch_inputs(batch), seed)

    def predict_batch(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, seed: int = 0
    ) -> OpenLoop:
        """What the model expects after the first rows of windows, with the recorded actions."""
        return predict_batch(self.model, self.batch_inputs(batch), context, horizon, samples, seed)

    @torch.no_grad()
    def decode(self, deter: NDArray[Any], stoch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """What states (…, D) and (…, Z) look like: images as bytes, everything else as numbers."""
        feat = np.concatenate([deter, stoch], -1, dtype=np.float32)
        return decoded(self.model, torch.from_numpy(feat).to(self.device))

    @cached_property
    def policy(self) -> ActorPolicy:
        """Chooses the most likely actions: `policy(obs)`, after `policy.begin()` for an episode."""
        return self.make_policy(sample=False)

    def make_policy(
        self, *, sample: bool, seed: Sequence[int] = (0,), explore: bool = False
    ) -> ActorPolicy:
        """A policy with a memory of its own; `sample` draws actions instead of the likeliest.

        `explore` takes the actor that goes where the model is uncertain, if one was trained.
        """
        raise RunError(
            f"{self.run.path} is a {self.run.kind} run: it has no actor.",
            f"Train one: wmtk train-policy {shlex.quote(str(self.run.path))} "
            f"{'--explore disagreement ' if explore else ''}--out …",
        )


class LoadedAgent(LoadedModel):
    """A world model with an actor and a critic, ready to act on its own."""

    def __init__(self, run: Run, saved: Checkpoint, device: str) -> None:
        super().__init__(run, saved, device)
        settings, actions = self.config.behavior, actions_of(self.schema.action)
        feat_size = self.model.rssm.feat_size
        self.behavior = ActorCritic(feat_size, actions, settings.layers, settings.units)
        self.explorer: ActorCritic | None = None  # an actor of its own, with its critics
        if settings.explore:
            self.explorer = ActorCritic(feat_size, actions, settings.layers, settings.units)
        for name, behavior in {TASK: self.behavior, EXPLORER: self.explorer}.items():
            if behavior is not None:
                with checkpoint_errors(saved.path):
                    load_module_state(name, behavior, saved.tensors)
                behavior.to(self.device).eval()

    @property
    def _modules(self) -> list[nn.Module]:
        behaviors = (self.behavior, self.explorer)
        return [self.model, *(each for each in behaviors if each is not None)]

    def make_policy(
        self, *, sample: bool, seed: Sequence[int] = (0,), explore: bool = False
    ) -> ActorPolicy:
        behavior = self.explorer if explore else self.behavior
        if behavior is None:
            raise RunError(
                f"{self.run.path} was trained without an explorer.",
                f"Train one: wmtk train-policy {shlex.quote(str(self.run.path))} "
                "--explore disagreement --out …",
            )
        return ActorPolicy(
            self.model,
            behavior,
            self.data_schema,
            observations=self.observations,
            sample=sample,
            seed=seed,
            name=f"{self.run.path.name}{'/explorer' if explore else ''}@{self.step}",
            checkpoint=self.hash,
        )

    @torch.no_grad()
    def value(self, state: State) -> NDArray[np.float32]:
        """What the critic expects of states (…): their reward and all that follows, discounted."""
        return _numpy(self.behavior.critic(state.feat).squeeze(-1))

    @torch.no_grad()
    def value_of(self, deter: NDArray[Any], stoch: NDArray[Any]) -> NDArray[np.float32]:
        """The same of states given as arrays (…, D) and (…, Z)."""
        feat = torch.from_numpy(np.concatenate([deter, stoch], -1, dtype=np.float32))
        return _numpy(self.behavior.critic(feat.to(self.device)).squeeze(-1))

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
        """The first rows of windows are seen; then the actor plays on inside of the model."""
        return rollout_policy(
            self.model,
            self.behavior,
            self.actions,
            self.batch_inputs(batch),
            context=context,
            horizon=horizon,
            samples=samples,
            sample=sample,
            seed=seed,
        )


def load(run: str | os.PathLike[str], which: str = "latest", device: str = "cpu") -> LoadedModel:
    """The model of a run directory, or its agent, if it has one.

    `which` is a checkpoint's step, "latest" or "best"; `device` "auto" is the best there is.
    """
    found = Run(run)
    require_saved_sizes(found, found.settings, which)
    kind = LoadedAgent if found.has_actor else LoadedModel
    return kind(found, found.checkpoints.load(which), choose_device(device))


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.cpu().numpy()
    return array
