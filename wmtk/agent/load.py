"""`wmtk.load`: a trained world model or agent, with NumPy arrays as inputs and outputs."""

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

from wmtk.agent.actor_networks import EXPLORER, TASK, action_distribution, make_actor_critic
from wmtk.agent.actor_policy import ActorPolicy
from wmtk.agent.batch_tensors import ActionCodec, to_inputs, whole_episode
from wmtk.agent.compat import restore_world_model
from wmtk.agent.device import choose_device
from wmtk.agent.outputs import OpenLoop, PolicyRollout, Posterior
from wmtk.agent.predictions import (
    decoded,
    observe_batch,
    open_loop,
    predict_batch,
    rollout_policy,
)
from wmtk.agent.saved_sizes import require_saved_sizes
from wmtk.datasets import Batch, Dataset, Episode
from wmtk.datasets.schema_match import require_episode, require_fit
from wmtk.errors import RunError, UsageError
from wmtk.models import kernels
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
    """S samples of predictions of H steps: arrays (S, H, …)."""

    obs: dict[str, NDArray[Any]]  # images as uint8, everything else as float32
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]

    __repr__ = brief_repr


class LoadedModel:
    """A trained world model: encodes, reconstructs, predicts and imagines.

    `wmtk.load` returns it for a run of `wmtk.train_model`.

    Example:
        >>> import wmtk
        >>> model = wmtk.load("runs/model")
        >>> episode = wmtk.Dataset.open("catch.zarr")[0]
        >>> frames = model.reconstruct(episode)["image"]  # (T+1, 64, 64, 1) uint8
        >>> frames.shape == episode.obs["image"].shape
        True
        >>> prediction = model.predict(episode, context=5, horizon=10, samples=2)
        >>> prediction.reward.shape
        (2, 10)

    Attributes:
        run: The run directory.
        config: Its settings.
        schema: Spaces of the model's inputs; `data_schema` has those of the training data.
        model: The network, a torch module in evaluation mode.
        step: Number of updates of the checkpoint.
        hash: SHA-256 of the checkpoint's tensors.
        device: The device of the network.
    """

    def __init__(
        self,
        run: Run,
        saved: Checkpoint,
        device: str,
        world_model: type[WorldModel] = WorldModel,
    ) -> None:
        self.run = run
        self.config = run.settings
        self.data_schema, self.observations = spaces_of(run, self.config)
        self.schema = replace(self.data_schema, obs=self.observations.specs)
        self.device = torch.device(device)
        self.actions = ActionCodec(self.schema.action)
        self.step, self.hash = saved.step, saved.hash
        kernels.select(self.config.kernels)
        self.model = world_model(self.config.model, self.observations.specs, self.actions.size)
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
    def is_agent(self) -> bool:
        """Whether the run has an actor; it is then a `LoadedAgent`."""
        return isinstance(self, LoadedAgent)

    @property
    def _modules(self) -> list[nn.Module]:
        return [self.model]

    @property
    def gamma(self) -> float | None:
        """The discount of non-terminal steps; None if the model has no discount head."""
        config = self.config.model
        return config.discount if config.discount_scale else None

    @property
    def policy_horizon(self) -> int:
        """The imagined steps per update when a policy is trained in the model."""
        return self.config.behavior.horizon

    # --- inputs ---

    def require_fit(self, dataset: Dataset) -> None:
        """Raise SchemaMismatchError unless the spaces of a dataset are those of the model."""
        require_fit(self.data_schema, dataset.schema, f"{self.run.path} and {dataset.path}")

    def preprocess(self, batch: Batch) -> Batch:
        """The batch with preprocessed observations, which are comparable to the model's outputs."""
        return replace(batch, obs=self.observations(batch.obs))

    def episode_inputs(self, episode: Episode) -> Inputs:
        """An episode as tensors, a batch of one window."""
        require_episode(self.data_schema, episode)
        return self.batch_inputs(whole_episode(episode))

    def batch_inputs(self, batch: Batch) -> Inputs:
        """A batch as tensors."""
        return to_inputs(batch, self.observations, self.actions, self.device)

    # --- episodes ---

    @torch.no_grad()
    def encode(self, episode: Episode) -> NDArray[np.float32]:
        """The embeddings of the observations: (T+1, E)."""
        return _numpy(self.model.encode(self.episode_inputs(episode).obs)[0])

    @torch.no_grad()
    def observe(self, episode: Episode) -> State:
        """The posterior states of an episode: (1, T+1, …)."""
        return self.model.observe(self.episode_inputs(episode))

    @torch.no_grad()
    def reconstruct(self, episode: Episode) -> dict[str, NDArray[Any]]:
        """Reconstructions of all rows: (T+1, …), images as uint8."""
        return decoded(self.model, self.observe(episode).feat[0])

    @torch.no_grad()
    def imagine(self, state: State, actions: NDArray[Any]) -> State:
        """The prior states (N, H, …) after states (N, …) under actions (N, H, …).

        `observe(episode).at(-1)` is such a state, with N = 1.
        """
        actions = np.asarray(actions)
        lead = (len(state.deter), actions.shape[1] if actions.ndim > 1 else 0)
        if state.deter.ndim != 2 or actions.shape != (*lead, *self.schema.action.shape):
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
        """Open-loop predictions after `context` observed rows, under the recorded actions."""
        rows = len(episode.reward)
        if context < 1 or horizon < 1 or context + horizon > rows:
            raise UsageError(
                f"{context} rows of context and {horizon} of prediction do not fit {rows} rows.",
                "Choose a longer episode or a shorter horizon.",
            )
        inputs = self.episode_inputs(episode)
        _, imagined = open_loop(
            self.model, inputs, context=context, horizon=horizon, samples=samples
        )
        feat = imagined.feat
        return EpisodePrediction(
            decoded(self.model, feat),
            _numpy(self.model.reward(feat)),
            _numpy(self.model.discount(feat)),
        )

    # --- batches ---

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        """Posterior, prior and predictions at each row of N windows."""
        return observe_batch(self.model, self.batch_inputs(batch), seed)

    def predict_batch(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, seed: int = 0
    ) -> OpenLoop:
        """Open-loop predictions after the first rows of N windows, under the recorded actions."""
        return predict_batch(self.model, self.batch_inputs(batch), context, horizon, samples, seed)

    @torch.no_grad()
    def decode(self, deter: NDArray[Any], stoch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Decode states (…, D) and (…, Z) to observations: images as uint8, others as float32."""
        feat = np.concatenate([deter, stoch], -1, dtype=np.float32)
        return decoded(self.model, torch.from_numpy(feat).to(self.device))

    # --- policies ---

    @cached_property
    def policy(self) -> ActorPolicy:
        """The policy that takes the most likely actions; see `ActorPolicy`."""
        return self.make_policy(sample=False)

    def make_policy(
        self, *, sample: bool, seed: Sequence[int] = (0,), explore: bool = False
    ) -> ActorPolicy:
        """Make a policy, with separate latent states. Raises RunError if the run has no actor.

        Args:
            sample: Sample actions instead of taking the most likely ones.
            seed: Seed of the policy's random numbers.
            explore: Use the explorer, which maximizes the disagreement of the ensemble.
        """
        raise RunError(
            f"{self.run.path} is a {self.run.kind} run: it has no actor.",
            f"Train one: wmtk train-policy {shlex.quote(str(self.run.path))} "
            f"{'--explore disagreement ' if explore else ''}--out …",
        )


class LoadedAgent(LoadedModel):
    """A trained world model with an actor and a critic.

    `wmtk.load` returns it for a run of `wmtk.train_policy` or `wmtk.online`.

    Example:
        >>> import wmtk
        >>> agent = wmtk.load("runs/policy")
        >>> assert isinstance(agent, wmtk.LoadedAgent)
        >>> episode = wmtk.Dataset.open("catch.zarr")[0]
        >>> agent.value(agent.observe(episode)).shape == (1, episode.length + 1)
        True

    Attributes:
        actor_critic: The actor and the critic.
        explorer: The actor and the critic of exploration, or None.
    """

    def __init__(
        self,
        run: Run,
        saved: Checkpoint,
        device: str,
        world_model: type[WorldModel] = WorldModel,
    ) -> None:
        super().__init__(run, saved, device, world_model)
        settings, actions = self.config.behavior, action_distribution(self.schema.action)
        self.actor_critic = make_actor_critic(settings, self.model, actions)
        self.explorer: ActorCritic | None = None
        if settings.explore:
            self.explorer = make_actor_critic(settings, self.model, actions)
        for name, actor_critic in {TASK: self.actor_critic, EXPLORER: self.explorer}.items():
            if actor_critic is not None:
                with checkpoint_errors(saved.path):
                    load_module_state(name, actor_critic, saved.tensors)
                actor_critic.to(self.device).eval()

    @property
    def _modules(self) -> list[nn.Module]:
        modules = (self.model, self.actor_critic, self.explorer)
        return [module for module in modules if module is not None]

    def make_policy(
        self, *, sample: bool, seed: Sequence[int] = (0,), explore: bool = False
    ) -> ActorPolicy:
        actor_critic = self.explorer if explore else self.actor_critic
        if actor_critic is None:
            raise RunError(
                f"{self.run.path} was trained without an explorer.",
                f"Train one: wmtk train-policy {shlex.quote(str(self.run.path))} "
                "--explore disagreement --out …",
            )
        return ActorPolicy(
            self.model,
            actor_critic,
            self.data_schema,
            observations=self.observations,
            sample=sample,
            seed=seed,
            name=f"{self.run.path.name}{'/explorer' if explore else ''}@{self.step}",
            checkpoint=self.hash,
        )

    @torch.no_grad()
    def value(self, state: State) -> NDArray[np.float32]:
        """The critic's values (…) of states: expected discounted sums of the following rewards."""
        return _numpy(self.actor_critic.critic(state.feat).squeeze(-1))

    @torch.no_grad()
    def value_of(self, deter: NDArray[Any], stoch: NDArray[Any]) -> NDArray[np.float32]:
        """The critic's values (…) of states given as arrays (…, D) and (…, Z)."""
        feat = torch.from_numpy(np.concatenate([deter, stoch], -1, dtype=np.float32))
        return _numpy(self.actor_critic.critic(feat.to(self.device)).squeeze(-1))

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
        """Imagined rollouts of the actor after the first rows of N windows."""
        return rollout_policy(
            self.model,
            self.actor_critic,
            self.actions,
            self.batch_inputs(batch),
            context=context,
            horizon=horizon,
            samples=samples,
            sample=sample,
            seed=seed,
        )


def load(
    run: str | os.PathLike[str],
    checkpoint: str = "latest",
    device: str = "cpu",
    *,
    world_model: type[WorldModel] = WorldModel,
) -> LoadedModel:
    """Load the model of a run directory, or its agent if it has an actor.

    The result of a run of `train_model` is a `LoadedModel`; that of `train_policy` and `online` is
    a `LoadedAgent`, a subclass. `isinstance` narrows the type.

    Example:
        >>> import wmtk
        >>> loaded = wmtk.load("runs/policy")
        >>> if isinstance(loaded, wmtk.LoadedAgent):  # the same as loaded.is_agent
        ...     policy = loaded.make_policy(sample=True, seed=[1])
        >>> wmtk.load("runs/model").is_agent
        False

    Args:
        run: The run directory.
        checkpoint: `"latest"`, `"best"`, or the number of an update.
        device: `"cpu"`, `"cuda"`, `"cuda:N"`, `"mps"`, or `"auto"` for the best that is available.
        world_model: The class that the run was trained with, if it is a subclass.

    Raises:
        RunError: The path is no run directory, of an earlier format, or of another `world_model`.
        CheckpointError: The checkpoint is missing or damaged.
    """
    directory = Run(run)
    require_saved_sizes(directory, directory.settings, checkpoint, world_model)
    kind = LoadedAgent if directory.has_actor else LoadedModel
    saved = directory.checkpoints.load(checkpoint)
    return kind(directory, saved, choose_device(device), world_model)


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.cpu().numpy()
    return array
