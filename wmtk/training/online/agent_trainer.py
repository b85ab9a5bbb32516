"""Alternating training of a world model and a policy on the same batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from wmtk.agent.actor_policy import ActorPolicy
from wmtk.collecting import EvalReport, Policy, RandomPolicy
from wmtk.collecting.env_setup import EnvSetup
from wmtk.collecting.evaluator import EVALUATION
from wmtk.datasets import Batch, Schema, Source
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.loop import EvalOutcome, Report, Update
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.online.progress import ProgressTracker
from wmtk.training.policy_trainer import PolicyTrainer
from wmtk.training.rng import RngState
from wmtk.training.run_eval import confirmation_seed, run_eval
from wmtk.training.samplers import image_batch
from wmtk.training.timing import Timer


class AgentTrainer:
    """Trains a world model, then a policy, on each batch.

    Both have separate random states, so that each computes the same as without the other.
    """

    def __init__(
        self,
        config: TrainingConfig,
        schema: Schema,
        seed: int,
        device: torch.device,
        world_model: type[WorldModel] = WorldModel,
    ) -> None:
        self.schema = schema
        self._config, self._timer = config.online, Timer()
        torch.manual_seed(seed)
        self.model = ModelTrainer(config, schema, device, world_model)
        self._rng = {"model": RngState()}
        self.policy = PolicyTrainer(config, schema, self.model.model)
        self._rng["behavior"] = RngState()

    def connect(
        self, env: EnvSetup, data: Sequence[Source], tracker: ProgressTracker, timer: Timer
    ) -> None:
        """Set the environment and the data of evaluations."""
        self._env, self._data, self._tracker, self._timer = env, data, tracker, timer
        self.model.image_batch = partial(image_batch, self.model.config.data, data, env.seed)

    def inputs(self, batch: Batch) -> Inputs:
        """The batch as tensors on the trainer's device."""
        return self.model.inputs(batch)

    def update(self, inputs: Inputs, step: int) -> Update:
        """One gradient step of the world model, then one of the policy from its states."""
        post: State | None = None
        metrics: dict[str, Tensor] = {}
        if self._config.learn_model:
            with self._timer.timed("model"), self._rng["model"].active():
                post, metrics = self.model.update(inputs, step)
        if self._config.learn_behavior:
            with self._timer.timed("behavior"), self._rng["behavior"].active():
                post, policy_metrics = self.policy.update(inputs, step, post)
            metrics |= policy_metrics
        assert post is not None, self._config
        return Update(post, metrics)

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        """The metrics of an update with errors and learning rates."""
        reports = []
        if self._config.learn_model:
            reports.append(self.model.report(metrics))
        if self._config.learn_behavior:
            reports.append(self.policy.report(metrics))
        return Report(
            {name: value for report in reports for name, value in report.metrics.items()},
            {name: value for report in reports for name, value in report.summary.items()},
        )

    # --- evaluation ---

    def evaluate(
        self, log: MetricsLog, step: int, *, last: bool, best: float | None = None
    ) -> EvalOutcome:
        """Log images and, every `online.evaluate` steps, returns of test episodes.

        After a mean return above the best one, a second set of episodes is run. The `loss` of the
        outcome is minus their mean return.
        """
        with self._timer.timed("images"):
            self.model.evaluate(log, step, last=last)
        if not self._config.evaluates_at(step) and not (last and self._config.episodes):
            return EvalOutcome()
        with self._timer.timed("eval"):
            report, confirmation = self._run_episodes(), None
            if report is not None and (best is None or fmean(report.returns) > -best):
                confirmation = self._run_episodes(confirmation_seed(self._env.seed, step))
                report = report if confirmation else None
        if report is None:
            return EvalOutcome(interrupted=True)
        metrics = self._tracker.evaluated(report, confirmation)
        log.scalars(step, metrics)
        return EvalOutcome(-metrics["eval/confirmed_return"] if confirmation else None)

    def _run_episodes(self, seed: int | None = None) -> EvalReport | None:
        policy = self.task_policy([self._env.seed, EVALUATION])
        env = self._env.with_limit_of(self._data)
        return run_eval(env, self.schema, policy, self._config.episodes, seed)

    def task_policy(self, seed: Sequence[int]) -> ActorPolicy:
        """The actor of the task with its most likely actions. It shares the trainer's weights."""
        return self._policy(self.policy.actor_critic, seed, sample=False)

    def collection_policy(self, seed: Sequence[int]) -> Policy:
        """The explorer, if there is one, else the actor of the task, with sampled actions.

        With `online.actor` "random" actions are random.
        """
        if self._config.actor == "random":
            return RandomPolicy(self.schema.action, seed)
        actor_critic = self.policy.explorer or self.policy.actor_critic
        return self._policy(actor_critic, seed, sample=True)

    def _policy(
        self, actor_critic: ActorCritic, seed: Sequence[int], *, sample: bool
    ) -> ActorPolicy:
        return ActorPolicy(
            self.model.model,
            actor_critic,
            self.schema,
            observations=self.model.observations,
            sample=sample,
            seed=seed,
        )

    # --- saving ---

    def recovery_overrides(self) -> dict[str, Any]:
        """A third of all learning rates."""
        return self.model.recovery_overrides() | self.policy.recovery_overrides()

    def state_dict(self) -> dict[str, Tensor]:
        """The states of both trainers and of their random generators."""
        tensors = self.policy.state_dict() | self.model.state_dict()
        for name, rng in self._rng.items():
            tensors |= rng.state_dict(name)
        return tensors

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the states of both trainers and of their random generators."""
        self.policy.load_state_dict(tensors)
        self.model.load_state_dict(tensors)
        for name, rng in self._rng.items():
            rng.load_state_dict(name, tensors)

    def load_pretrained(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the world model of another run, and its policy if it has one."""
        self.model.load_pretrained(tensors)
        self.policy.load_pretrained(tensors)
