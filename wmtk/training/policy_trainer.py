"""Updates of an actor and its critic: the object that `train-policy` and the online agent share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import torch
from pydantic import Field
from torch import Tensor

from wmtk.config import Config
from wmtk.models.actions import Actions
from wmtk.models.behaviour import Behaviour, Objective
from wmtk.models.imagination import Starts
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.training.checkpoint import (
    module_tensors,
    optimizer_tensors,
    restore_module,
    restore_optimizer,
)
from wmtk.training.divergence import require_finite
from wmtk.training.optimizer import Optimizer, OptimizerConfig
from wmtk.training.schedules import Schedule, value


class BehaviourConfig(Config):
    """Networks and learning of actor and critic. The defaults are the paper's for Atari.

    The discount γ is the model's: model.discount.
    """

    layers: int = Field(4, ge=1)
    units: int = Field(400, ge=1)
    horizon: int = Field(15, ge=1)  # H
    starts: int | None = Field(None, ge=1)  # N: drawn from each batch; null takes all its rows
    trace: float = Field(0.95, ge=0, le=1)  # λ
    # ρ: 1 is Reinforce, 0 is backpropagation through the dynamics; null is 1 for discrete actions
    # and 0 for the others.
    reinforce: Schedule | None = 1.0
    entropy: Schedule = 1e-3  # η
    long_term_entropy: bool = False  # whether the entropy of later actions counts as a reward
    slow_every: int = Field(100, ge=1)  # updates after which the slow critic is a new copy
    actor: OptimizerConfig = OptimizerConfig(rate=4e-5)
    critic: OptimizerConfig = OptimizerConfig(rate=1e-4)


class PolicyTrainer:
    """An actor and a critic with their optimisers, for the states of a world model.

    The model is only looked at: it may be frozen, or be trained by someone else in between.
    """

    def __init__(self, config: BehaviourConfig, model: WorldModel, actions: Actions) -> None:
        self.config, self.model, self.actions = config, model, actions
        device = next(model.parameters()).device
        behaviour = Behaviour(model.rssm.feat_size, actions, config.layers, config.units)
        self.behaviour = behaviour.to(device)
        self._actor = Optimizer(config.actor, self.behaviour.actor.parameters())
        self._critic = Optimizer(config.critic, self.behaviour.critic.parameters())
        self._updates = 0

    def starts(self, post: State, inputs: Inputs) -> Starts:
        """States (B, T, …) of a batch to imagine from: rows that are no padding, all or some."""
        rows = inputs.mask.nonzero()  # (N, 2)
        wanted = self.config.starts
        if wanted is not None and wanted < len(rows):
            rows = rows[torch.randperm(len(rows), device=rows.device)[:wanted]]
        b, t = rows.unbind(-1)
        # Ends of episodes too: the critic has to know that nothing comes after them.
        discount = self.model.config.discount * (1 - inputs.terminal[b, t].float())
        return Starts(State(*(part.detach()[b, t] for part in post)), discount)

    def objective(self, step: int) -> Objective:
        """What the settings say at a step."""
        config = self.config
        rho = float(self.actions.discrete) if config.reinforce is None else config.reinforce
        return Objective(
            horizon=config.horizon,
            trace=config.trace,
            reinforce=value(rho, step),
            entropy=value(config.entropy, step),
            long_term_entropy=config.long_term_entropy,
        )

    def update(self, starts: Starts, step: int) -> dict[str, Tensor]:
        """One gradient step of each; what to log."""
        if self._updates % self.config.slow_every == 0:
            self.behaviour.renew_slow()
        self._updates += 1
        objective = self.objective(step)
        dream = self.behaviour.imagine(self.model, starts, objective)
        actor_loss, critic_loss, metrics = self.behaviour.losses(dream, objective)
        require_finite(step, metrics, {}, self.behaviour)
        metrics["gradient/actor"] = self._actor.update(actor_loss, step)
        metrics["gradient/critic"] = self._critic.update(critic_loss, step)
        norms = {name: metrics[name] for name in ("gradient/actor", "gradient/critic")}
        require_finite(step, norms, {}, self.behaviour)
        return metrics

    def report(self, metrics: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        """The metrics of one update or the mean of several."""
        return {name: fmean(float(m[name]) for m in metrics) for name in metrics[0]}

    @property
    def rates(self) -> dict[str, float]:
        """The learning rates of the last update."""
        learners = {"actor": self._actor, "critic": self._critic}
        return {name: float(x.adam.param_groups[0]["lr"]) for name, x in learners.items()}

    def tensors(self) -> dict[str, Tensor]:
        return {
            **module_tensors("behaviour", self.behaviour),
            **optimizer_tensors("adam/actor", self._actor.adam),
            **optimizer_tensors("adam/critic", self._critic.adam),
            "behaviour_updates": torch.tensor(self._updates),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        restore_module("behaviour", self.behaviour, tensors)
        restore_optimizer("adam/actor", self._actor.adam, tensors)
        restore_optimizer("adam/critic", self._critic.adam, tensors)
        self._updates = int(tensors["behaviour_updates"])
