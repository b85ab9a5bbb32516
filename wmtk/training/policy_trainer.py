"""Training of actors and critics in imagination, in `train_policy` and in `online`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wmtk.agent.actor_networks import ENSEMBLE, EXPLORER, TASK, action_distribution
from wmtk.agent.batch_tensors import ActionCodec, to_inputs
from wmtk.agent.compat import restore_world_model
from wmtk.collecting import EvalReport
from wmtk.datasets import Batch, Schema
from wmtk.errors import RunError
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.ensemble import Ensemble
from wmtk.models.imagination import StartStates, Trajectory, imagine
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.state_dict import (
    load_count,
    load_module_state,
    load_optimizer_state,
    module_state,
    optimizer_state,
)
from wmtk.runs.training_config import BehaviorConfig, TrainingConfig
from wmtk.training.ensemble_trainer import EnsembleTrainer, novelty, penalized
from wmtk.training.health import require_finite
from wmtk.training.loop import EvalOutcome, Report, Update
from wmtk.training.optim import Optimizer
from wmtk.training.run_eval import eval_metrics


@dataclass
class _Learner:
    """An actor with its critics and their optimizers."""

    actor_critic: ActorCritic
    actor: Optimizer
    critic: Optimizer
    updates: int = 0


class PolicyTrainer:
    """Actors and critics with their optimizers, for the states of a world model.

    The world model is not changed: its weights are frozen, or another trainer updates them. With
    `behavior.penalty` or `behavior.explore`, an ensemble is also trained; with `behavior.explore`,
    a second actor, the explorer. After the last update, `evaluate` calls `test`, if that is set.
    """

    def __init__(self, config: TrainingConfig, schema: Schema, model: WorldModel) -> None:
        self.config: BehaviorConfig = config.behavior
        self.model, self.actions = model, action_distribution(schema.action)
        self.observations = config.data.observations(schema)
        self.device = next(model.parameters()).device
        self.test: Callable[[], EvalReport | None] | None = None  # None if it was interrupted
        self._codec = ActionCodec(schema.action)
        self._learners = {TASK: self._make_learner()}
        self._ensemble: EnsembleTrainer | None = None
        if self.config.penalty or self.config.explore:
            sizes = self.config.layers, self.config.units
            self._ensemble = EnsembleTrainer(self.config.ensemble, model, self.actions.size, *sizes)
        if self.config.explore:
            self._learners[EXPLORER] = self._make_learner()

    def _make_learner(self) -> _Learner:
        config = self.config
        network = ActorCritic(config, self.model.rssm.feat_size, self.actions)
        network = network.to(self.device)
        return _Learner(
            network,
            Optimizer(config.actor, network.actor.parameters()),
            Optimizer(config.critic, network.critic.parameters()),
        )

    @property
    def actor_critic(self) -> ActorCritic:
        """The actor of the task and its critics."""
        return self._learners[TASK].actor_critic

    @property
    def explorer(self) -> ActorCritic | None:
        """The actor that is rewarded by disagreement, and its critics."""
        learner = self._learners.get(EXPLORER)
        return learner.actor_critic if learner else None

    @property
    def ensemble(self) -> Ensemble | None:
        """The one-step predictors whose disagreement estimates epistemic uncertainty."""
        return self._ensemble.ensemble if self._ensemble else None

    def inputs(self, batch: Batch) -> Inputs:
        """The batch as tensors on the device of the world model."""
        return to_inputs(batch, self.observations, self._codec, self.device)

    # --- updates ---

    def update(self, inputs: Inputs, step: int, post: State | None = None) -> Update:
        """One gradient step of every network; `step` counts from 1.

        `post` are the posterior states (B, T, …) of the batch; None computes them.
        """
        if post is None:
            with torch.no_grad():
                post = self.model.observe(inputs)
        metrics = self._ensemble.update(post, inputs, step) if self._ensemble else {}
        start_states = self.start_states(post, inputs)
        for name, learner in self._learners.items():
            network = learner.actor_critic
            if learner.updates % self.config.target_update_every == 0:
                network.update_target()
            learner.updates += 1
            backprop = network.rho(step) < 1
            trajectory = imagine(
                self.model, network, start_states, self.config.horizon, backprop_dynamics=backprop
            )
            reward, extra = self._reward(name, trajectory)
            actor_loss, critic_loss, values = network.losses(trajectory, step, reward)
            values |= extra
            require_finite(step, values, {}, network)
            norms = {
                "grad_norm/actor": learner.actor.update(actor_loss, step),
                "grad_norm/critic": learner.critic.update(critic_loss, step),
            }
            require_finite(step, norms, {}, network)
            prefix = _prefix(name, "/")
            metrics |= {f"{prefix}{key}": x for key, x in {**values, **norms}.items()}
        return Update(post, metrics)

    def start_states(self, post: State, inputs: Inputs) -> StartStates:
        """States (N, …) to imagine from, out of a batch (B, T, …).

        All rows except padding, or `imagination_starts` random ones of them if that is fewer.
        """
        rows = inputs.mask.nonzero()  # (N, 2)
        count = self.config.imagination_starts
        if count is not None and count < len(rows):
            rows = rows[torch.randperm(len(rows), device=rows.device)[:count]]
        b, t = rows.unbind(-1)
        # The ends of episodes are included: the critic learns that no reward follows them.
        discount = self.model.config.discount * (1 - inputs.terminal[b, t].float())
        return StartStates(State(*(part.detach()[b, t] for part in post)), discount)

    def _reward(self, name: str, trajectory: Trajectory) -> tuple[Tensor, dict[str, Tensor]]:
        """The rewards (N, H) that an actor is trained on, and metrics."""
        if name == TASK and not self.config.penalty:
            return trajectory.reward, {}
        assert self._ensemble is not None, self.config
        uncertainty = self._ensemble.ensemble.uncertainty(trajectory)  # (N, H)
        metrics = {"disagreement/imagined": uncertainty.detach().mean()}
        if name == EXPLORER:
            return novelty(trajectory, uncertainty), metrics
        return penalized(trajectory, uncertainty, self.config.penalty), metrics

    # --- metrics ---

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        """The metrics of an update with the learning rates."""
        values = {name: float(x) for name, x in metrics.items()}
        summary = {
            "imagined return": values.get("imagined/return", values["imagined/reward"]),
            "value": values["critic/value"],
            "entropy": values["entropy/actor"],
        }
        return Report(values | {f"lr/{name}": lr for name, lr in self.lrs.items()}, summary)

    @property
    def lrs(self) -> dict[str, float]:
        """The learning rates of the last update."""
        learner = self._learners[TASK]
        optimizers = {"actor": learner.actor, "critic": learner.critic}
        if self._ensemble:
            optimizers["ensemble"] = self._ensemble.optimizer
        return {name: optimizer.lr for name, optimizer in optimizers.items()}

    def evaluate(
        self, log: MetricsLog, step: int, *, last: bool, best: float | None = None
    ) -> EvalOutcome:
        """Run the test episodes after the last update, if there are any."""
        if not last or self.test is None:
            return EvalOutcome()
        report = self.test()
        if report is not None:
            log.scalars(step, eval_metrics(report))
        return EvalOutcome(interrupted=report is None)

    def recovery_overrides(self) -> dict[str, Any]:
        """A third of each learning rate."""
        return {f"behavior.{name}.lr": float(f"{lr / 3:.1g}") for name, lr in self.lrs.items()}

    # --- saving ---

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The networks that are trained, by the prefix of their tensors."""
        modules = {TASK: self.actor_critic, ENSEMBLE: self.ensemble, EXPLORER: self.explorer}
        return {name: module for name, module in modules.items() if module is not None}

    def state_dict(self) -> dict[str, Tensor]:
        """All weights, including those of the world model, and the states of the optimizers."""
        tensors = module_state("model", self.model)
        for name, learner in self._learners.items():
            prefix = f"adam/{_prefix(name, '_')}"
            tensors |= module_state(name, learner.actor_critic)
            tensors |= optimizer_state(f"{prefix}actor", learner.actor.adam)
            tensors |= optimizer_state(f"{prefix}critic", learner.critic.adam)
            tensors[f"{name}_updates"] = torch.tensor(learner.updates)
        return tensors | (self._ensemble.state_dict() if self._ensemble else {})

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load all weights, including those of the world model, and the optimizers."""
        restore_world_model(self.model, tensors)
        loaded = self.load_pretrained(tensors)
        if missing := [name for name in self.modules if name not in loaded]:
            raise RunError(
                f"The checkpoint has no {missing[0]}, which these settings need.",
                "Start a new run: behavior.penalty and behavior.explore cannot be added later.",
            )

    def load_pretrained(self, tensors: Mapping[str, Tensor]) -> set[str]:
        """Load those networks and optimizers that `tensors` contains; returns their prefixes."""
        loaded = {
            name for name in self.modules if any(key.startswith(f"{name}/") for key in tensors)
        }
        for name, learner in self._learners.items():
            if name in loaded:
                prefix = f"adam/{_prefix(name, '_')}"
                load_module_state(name, learner.actor_critic, tensors)
                load_optimizer_state(f"{prefix}actor", learner.actor.adam, tensors)
                load_optimizer_state(f"{prefix}critic", learner.critic.adam, tensors)
                learner.updates = load_count(f"{name}_updates", tensors)
        if self._ensemble and ENSEMBLE in loaded:
            self._ensemble.load_state_dict(tensors)
        return loaded


def _prefix(name: str, separator: str) -> str:
    """The prefix of an actor's metrics and optimizers; empty for the actor of the task."""
    return "" if name == TASK else f"{name}{separator}"
