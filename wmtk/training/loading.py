"""`wmtk.load`: a trained model, or an agent, to use from Python, in numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.datasets import Batch, Dataset, Episode, Schema
from wmtk.errors import RunError, UsageError
from wmtk.models.actions import actions_of
from wmtk.models.behaviour import Behaviour
from wmtk.models.rssm import State
from wmtk.models.shown import Dreamt, Imagined, Seen
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.training.acting import ActorPolicy
from wmtk.training.batches import ActionCodec, to_inputs, whole_episode
from wmtk.training.checkpoint import Checkpoint, restore_module
from wmtk.training.device import choose_device
from wmtk.training.fit import require_episode, require_fit
from wmtk.training.inspecting import decoded, foresee, watch
from wmtk.training.openloop import open_loop
from wmtk.training.policy_dreams import dream
from wmtk.training.policy_trainer import EXPLORER, TASK
from wmtk.training.presets import TrainingConfig
from wmtk.training.run import Run

HAS_ACTOR = ("policy", "online")  # kinds of runs


@dataclass(frozen=True)
class Prediction:
    """What the model expects of H steps, S times over: arrays (S, H, …)."""

    obs: dict[str, NDArray[Any]]  # images as bytes, everything else as numbers
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]


class LoadedModel:
    """A world model with its weights, ready to look at episodes and to imagine."""

    def __init__(self, run: Run, saved: Checkpoint, device: str) -> None:
        self.run = run
        self.schema = Schema.from_json(run.about["schema"])
        self.config = TrainingConfig.build(run.config())
        self.device = torch.device(device)
        self.actions = ActionCodec(self.schema.action)
        self.step, self.hash = saved.step, saved.hash
        self.model = WorldModel(self.config.model, self.schema.obs, self.actions.size)
        restore_module("model", self.model, saved.tensors)
        self.model.to(self.device).eval()

    def require_fit(self, dataset: Dataset) -> None:
        """Refuse a dataset whose spaces are not the model's."""
        require_fit(self.schema, dataset.schema, f"{self.run.path} and {dataset.path}")

    def inputs(self, episode: Episode) -> Inputs:
        """An episode as a batch of one."""
        require_episode(self.schema, episode)
        return to_inputs(whole_episode(episode), self.actions, self.device)

    @torch.no_grad()
    def encode(self, episode: Episode) -> NDArray[np.float32]:
        """The embeddings of what is seen: (T+1, E)."""
        return _numpy(self.model.encode(self.inputs(episode).obs)[0])

    @torch.no_grad()
    def observe(self, episode: Episode) -> State:
        """The posterior states of an episode: (1, T+1, …)."""
        return self.model.observe(self.inputs(episode))

    @torch.no_grad()
    def reconstruct(self, episode: Episode) -> dict[str, NDArray[Any]]:
        """What the model makes of each row after seeing it: (T+1, …), images as bytes."""
        return decoded(self.model, self.observe(episode).feat[0])

    @torch.no_grad()
    def imagine(self, state: State, actions: NDArray[Any]) -> State:
        """The states (N, H, …) that follow states (N, …) under actions (N, H, …).

        `observe(episode).at(-1)` is such a state, with N = 1.
        """
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
    ) -> Prediction:
        """Look at `context` rows, then go on blindly with the recorded actions."""
        rows = len(episode.reward)
        if context < 1 or horizon < 1 or context + horizon > rows:
            raise UsageError(
                f"{context} rows of context and {horizon} of prediction do not fit {rows} rows.",
                "Choose a longer episode or a shorter horizon.",
            )
        _, imagined = open_loop(
            self.model, self.inputs(episode), context=context, horizon=horizon, samples=samples
        )
        feat = imagined.feat
        return Prediction(
            decoded(self.model, feat),
            _numpy(self.model.reward(feat)),
            _numpy(self.model.discount(feat)),
        )

    @property
    def gamma(self) -> float | None:
        """The discount of a step that ends nothing; None where discounts are not learnt."""
        config = self.config.model
        return config.discount if config.discount_scale else None

    def watch(self, batch: Batch, seed: int = 0) -> Seen:
        """What the model makes of windows that it sees whole, for metrics and pictures."""
        return watch(self.model, to_inputs(batch, self.actions, self.device), seed)

    def foresee(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, seed: int = 0
    ) -> Imagined:
        """What the model expects after the first rows of windows, with the recorded actions."""
        inputs = to_inputs(batch, self.actions, self.device)
        return foresee(self.model, inputs, context, horizon, samples, seed)

    @torch.no_grad()
    def show(self, deter: NDArray[Any], stoch: NDArray[Any]) -> dict[str, NDArray[Any]]:
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
            f"Train one: wmtk train-policy {self.run.path} "
            f"{'--explore disagreement ' if explore else ''}--out …",
        )


class LoadedAgent(LoadedModel):
    """A world model with an actor and a critic, ready to act on its own."""

    def __init__(self, run: Run, saved: Checkpoint, device: str) -> None:
        super().__init__(run, saved, device)
        settings, actions = self.config.behaviour, actions_of(self.schema.action)
        feat_size = self.model.rssm.feat_size
        self.behaviour = Behaviour(feat_size, actions, settings.layers, settings.units)
        self.explorer: Behaviour | None = None  # an actor of its own, with its critics
        if settings.explore:
            self.explorer = Behaviour(feat_size, actions, settings.layers, settings.units)
        for name, behaviour in {TASK: self.behaviour, EXPLORER: self.explorer}.items():
            if behaviour is not None:
                restore_module(name, behaviour, saved.tensors)
                behaviour.to(self.device).eval()

    def make_policy(
        self, *, sample: bool, seed: Sequence[int] = (0,), explore: bool = False
    ) -> ActorPolicy:
        behaviour = self.explorer if explore else self.behaviour
        if behaviour is None:
            raise RunError(
                f"{self.run.path} was trained without an explorer.",
                f"Train one: wmtk train-policy {self.run.path} --explore disagreement --out …",
            )
        return ActorPolicy(
            self.model,
            behaviour,
            self.schema,
            sample=sample,
            seed=seed,
            name=f"{self.run.path.name}{'/explorer' if explore else ''}@{self.step}",
            checkpoint=self.hash,
        )

    @torch.no_grad()
    def value(self, state: State) -> NDArray[np.float32]:
        """What the critic expects of states (…): their reward and all that follows, discounted."""
        return _numpy(self.behaviour.critic(state.feat).squeeze(-1))

    @torch.no_grad()
    def judge(self, deter: NDArray[Any], stoch: NDArray[Any]) -> NDArray[np.float32]:
        """The same of states given as arrays (…, D) and (…, Z)."""
        feat = torch.from_numpy(np.concatenate([deter, stoch], -1, dtype=np.float32))
        return _numpy(self.behaviour.critic(feat.to(self.device)).squeeze(-1))

    def dream(
        self,
        batch: Batch,
        *,
        context: int,
        horizon: int,
        samples: int = 1,
        sample: bool = False,
        seed: int = 0,
    ) -> Dreamt:
        """The first rows of windows are seen; then the actor plays on inside of the model."""
        return dream(
            self.model,
            self.behaviour,
            self.actions,
            to_inputs(batch, self.actions, self.device),
            context=context,
            horizon=horizon,
            samples=samples,
            sample=sample,
            seed=seed,
        )


def load(run: str | Path, which: str = "latest", device: str = "cpu") -> LoadedModel:
    """The model of a run directory, or its agent, if it has one.

    `which` is a checkpoint's step, "latest" or "best"; `device` "auto" is the best there is.
    """
    found = Run(Path(run))
    kind = LoadedAgent if found.kind in HAS_ACTOR else LoadedModel
    return kind(found, found.checkpoints.load(which), choose_device(device))


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.cpu().numpy()
    return array
