"""Updates of an actor and its critic: the object that `train-policy` and the online agent share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import torch
from torch import Tensor, nn

from wmtk.agent.actor_networks import ENSEMBLE, EXPLORER, TASK
from wmtk.errors import RunError
from wmtk.models.actions import Actions
from wmtk.models.actor_critic import ActorCritic, Objective
from wmtk.models.ensemble import Ensemble, novelty, penalized
from wmtk.models.imagination import StartStates, Trajectory
from wmtk.models.rssm import State
from wmtk.models.schedules import value
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.state_dict import (
    load_count,
    load_module_state,
    load_optimizer_state,
    module_state,
    optimizer_state,
)
from wmtk.runs.training_config import BehaviorConfig
from wmtk.training.ensemble_trainer import EnsembleTrainer
from wmtk.training.health import require_finite
from wmtk.training.optim import Optimizer


class PolicyTrainer:
    """An actor and a critic with their optimizers, for the states of a world model.

    The model is only looked at: it may be frozen, or be trained by someone else in between. Where
    the settings ask for it, an ensemble learns how far the data goes, and a second actor explores.
    """

    def __init__(self, config: BehaviorConfig, model: WorldModel, actions: Actions) -> None:
        self.config, self.model, self.actions = config, model, actions
        self._task = _Learner(TASK, config, model, actions)
        self._ensemble = self._explorer = None
        if config.penalty or config.explore:
            sizes = config.layers, config.units
            self._ensemble = EnsembleTrainer(config.ensemble, model, actions.size, *sizes)
        if config.explore:
            self._explorer = _Learner(EXPLORER, config, model, actions)

    @property
    def behavior(self) -> ActorCritic:
        """The actor of the task, and its critics."""
        return self._task.behavior

    @property
    def explorer(self) -> ActorCritic | None:
        """The actor that goes where the ensemble disagrees, and its critics."""
        return None if self._explorer is None else self._explorer.behavior

    @property
    def ensemble(self) -> Ensemble | None:
        """The predictors that tell how far the data goes."""
        return None if self._ensemble is None else self._ensemble.ensemble

    def starts(self, post: State, inputs: Inputs) -> StartStates:
        """States (B, T, …) of a batch to imagine from: rows that are no padding, all or some."""
        rows = inputs.mask.nonzero()  # (N, 2)
        wanted = self.config.imagination_starts
        if wanted is not None and wanted < len(rows):
            rows = rows[torch.randperm(len(rows), device=rows.device)[:wanted]]
        b, t = rows.unbind(-1)
        # Ends of episodes too: the critic has to know that nothing comes after them.
        discount = self.model.config.discount * (1 - inputs.terminal[b, t].float())
        return StartStates(State(*(part.detach()[b, t] for part in post)), discount)

    def objective(self, step: int) -> Objective:
        """What the settings say at a step."""
        config = self.config
        rho = float(self.actions.discrete) if config.reinforce_mix is None else config.reinforce_mix
        return Objective(
            horizon=config.horizon,
            trace=config.lambda_,
            reinforce=value(rho, step),
            entropy=value(config.entropy, step),
            long_term_entropy=config.long_term_entropy,
        )

    def learn(self, post: State, inputs: Inputs, step: int) -> dict[str, Tensor]:
        """One gradient step of everything from a batch's states (B, T, …); what to log."""
        metrics = {} if self._ensemble is None else self._ensemble.update(post, inputs, step)
        return metrics | self.update(self.starts(post, inputs), step)

    def update(self, starts: StartStates, step: int) -> dict[str, Tensor]:
        """One gradient step of each actor and critic; what to log. The ensemble stays as it is."""
        objective = self.objective(step)
        metrics = self._task.update(starts, objective, step, self._penalized)
        if self._explorer is not None:
            metrics |= self._explorer.update(starts, objective, step, self._novel)
        return metrics

    def _penalized(self, dream: Trajectory) -> tuple[Tensor, dict[str, Tensor]]:
        if not self.config.penalty:
            return dream.reward, {}
        doubt = self._doubt(dream)
        metrics = {"disagreement/imagined": doubt.detach().mean()}
        return penalized(dream, doubt, self.config.penalty), metrics

    def _novel(self, dream: Trajectory) -> tuple[Tensor, dict[str, Tensor]]:
        doubt = self._doubt(dream)
        return novelty(dream, doubt), {"disagreement/imagined": doubt.detach().mean()}

    def _doubt(self, dream: Trajectory) -> Tensor:
        assert self._ensemble is not None, self.config
        return self._ensemble.judge(dream)

    def report(self, metrics: Sequence[Mapping[str, Tensor]]) -> dict[str, float]:
        """The metrics of one update or the mean of several."""
        return {name: fmean(float(m[name]) for m in metrics) for name in metrics[0]}

    @property
    def rates(self) -> dict[str, float]:
        """The learning rates of the last update."""
        learners = {"actor": self._task.actor, "critic": self._task.critic}
        if self._ensemble is not None:
            learners["ensemble"] = self._ensemble.optimizer
        return {name: float(x.adam.param_groups[0]["lr"]) for name, x in learners.items()}

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The networks that are trained, by the names under which they are saved."""
        found = {TASK: self.behavior, ENSEMBLE: self.ensemble, EXPLORER: self.explorer}
        return {name: module for name, module in found.items() if module is not None}

    @property
    def _parts(self) -> dict[str, _Learner | EnsembleTrainer]:
        parts = {TASK: self._task, ENSEMBLE: self._ensemble, EXPLORER: self._explorer}
        return {name: part for name, part in parts.items() if part is not None}

    def tensors(self) -> dict[str, Tensor]:
        return {k: v for part in self._parts.values() for k, v in part.tensors().items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with what was saved."""
        found = self.take_over(tensors)
        if missing := [name for name in self._parts if name not in found]:
            raise RunError(
                f"What was saved has no {missing[0]}, which these settings need.",
                "Start a new run: behavior.penalty and behavior.explore cannot begin later.",
            )

    def take_over(self, tensors: Mapping[str, Tensor]) -> set[str]:
        """Go on with those parts that were saved; which they are."""
        there = {name for name in self._parts if any(k.startswith(f"{name}/") for k in tensors)}
        for name in there:
            self._parts[name].restore(tensors)
        return there


Judge = Callable[[Trajectory], tuple[Tensor, dict[str, Tensor]]]  # rewards (H, N), and what to log


class _Learner:
    """One actor with its critics and their optimizers."""

    def __init__(
        self, name: str, config: BehaviorConfig, model: WorldModel, actions: Actions
    ) -> None:
        self._name, self._config, self._model = name, config, model
        behavior = ActorCritic(model.rssm.feat_size, actions, config.layers, config.units)
        self.behavior = behavior.to(next(model.parameters()).device)
        self.actor = Optimizer(config.actor, self.behavior.actor.parameters())
        self.critic = Optimizer(config.critic, self.behavior.critic.parameters())
        self._updates = 0

    def update(
        self, starts: StartStates, objective: Objective, step: int, judge: Judge
    ) -> dict[str, Tensor]:
        if self._updates % self._config.target_update_every == 0:
            self.behavior.renew_slow()
        self._updates += 1
        dream = self.behavior.imagine(self._model, starts, objective)
        reward, judged = judge(dream)
        actor_loss, critic_loss, metrics = self.behavior.losses(dream, objective, reward)
        metrics |= judged
        require_finite(step, metrics, {}, self.behavior)
        metrics["gradient/actor"] = self.actor.update(actor_loss, step)
        metrics["gradient/critic"] = self.critic.update(critic_loss, step)
        norms = {name: metrics[name] for name in ("gradient/actor", "gradient/critic")}
        require_finite(step, norms, {}, self.behavior)
        return {f"{self._prefix('/')}{name}": value for name, value in metrics.items()}

    def tensors(self) -> dict[str, Tensor]:
        return {
            **module_state(self._name, self.behavior),
            **optimizer_state(f"adam/{self._prefix('_')}actor", self.actor.adam),
            **optimizer_state(f"adam/{self._prefix('_')}critic", self.critic.adam),
            f"{self._name}_updates": torch.tensor(self._updates),
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        load_module_state(self._name, self.behavior, tensors)
        load_optimizer_state(f"adam/{self._prefix('_')}actor", self.actor.adam, tensors)
        load_optimizer_state(f"adam/{self._prefix('_')}critic", self.critic.adam, tensors)
        self._updates = load_count(f"{self._name}_updates", tensors)

    def _prefix(self, end: str) -> str:
        """What tells its names from those of the task's."""
        return "" if self._name == TASK else f"{self._name}{end}"
