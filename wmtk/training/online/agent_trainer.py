"""A world model and a policy that learn in turns, from the same batches, and are examined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from wmtk.agent.actor_policy import ActorPolicy
from wmtk.datasets import Batch, Schema
from wmtk.models.actor_critic import ActorCritic
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs
from wmtk.runs.checkpoint import Checkpoint
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.training_config import OnlineConfig, TrainingConfig
from wmtk.training.loop import Report, Stage
from wmtk.training.model_stage import ModelStage
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.policy_stage import PolicyStage
from wmtk.training.rng import RngState
from wmtk.training.timing import Timer


class Agent:
    """A world model with an actor and a critic inside of it, all of them still learning.

    Each of the two trainings draws its random numbers from a stream of its own: either does what
    it would do without the other.
    """

    def __init__(
        self, config: TrainingConfig, schema: Schema, seed: int, device: torch.device
    ) -> None:
        self.schema = schema
        torch.manual_seed(seed)
        self.model = ModelTrainer(config, schema, device)
        self.streams = {"model": RngState()}
        self.policy = PolicyStage(config, schema, self.model.model)
        self.streams["behavior"] = RngState()

    def take_over(self, saved: Checkpoint) -> None:
        """Begin with the networks of another run: its model, and its policy if it has one."""
        self.model.take_over(saved.tensors)
        self.policy.trainer.take_over(saved.tensors)

    def player(self, *, sample: bool, seed: Sequence[int]) -> ActorPolicy:
        """The actor of the task at play, as it is at each moment."""
        return self._playing(self.policy.trainer.behavior, seed, sample=sample)

    def collector(self, seed: Sequence[int]) -> ActorPolicy:
        """Who plays to learn from it: the explorer if there is one, else the actor of the task."""
        trainer = self.policy.trainer
        return self._playing(trainer.explorer or trainer.behavior, seed, sample=True)

    def _playing(self, actor: ActorCritic, seed: Sequence[int], *, sample: bool) -> ActorPolicy:
        return ActorPolicy(
            self.model.model,
            actor,
            self.schema,
            observations=self.model.observations,
            sample=sample,
            seed=seed,
        )


class AgentStage:
    """The stages of `train-model` and of `train-policy`, one after the other.

    `examine` plays the task with the policy as it is at an update, and returns what to log, or None
    if it was stopped. A mean return above its second argument is confirmed by more episodes.
    """

    def __init__(
        self,
        config: OnlineConfig,
        agent: Agent,
        model: ModelStage,
        examine: Callable[[int, float | None], Mapping[str, float] | None],
        parts: Timer,
    ) -> None:
        self.interrupted = False
        self._config, self._examine, self._parts = config, examine, parts
        self._model, self._policy, self._streams = model, agent.policy, agent.streams

    def update(self, batch: Batch, step: int) -> Mapping[str, Tensor]:
        found: dict[str, Mapping[str, Tensor]] = {}
        seen: tuple[Inputs, State] | None = None
        if self._config.learn_model:
            with self._parts.timed("model"), self._streams["model"].drawn():
                inputs, post, found["model"] = self._model.learn(batch, step)
                seen = inputs, post
        if self._config.learn_behavior:
            with self._parts.timed("behavior"), self._streams["behavior"].drawn():
                inputs, post = seen or self._policy.see(batch)
                found["policy"] = self._policy.learn(inputs, post, step)
        return {f"{who}:{name}": x for who, metrics in found.items() for name, x in metrics.items()}

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        values: dict[str, float] = {}
        shown: dict[str, float] = {}
        stages: dict[str, Stage] = {"model": self._model, "policy": self._policy}
        for who, stage in stages.items():
            start = f"{who}:"
            own = {n.removeprefix(start): x for n, x in metrics.items() if n.startswith(start)}
            if own:
                report = stage.report(own)
                values |= report.values
                shown |= report.shown
        return Report(values, shown)

    def look(
        self, log: MetricsLog, step: int, *, last: bool, best: float | None = None
    ) -> float | None:
        """Pictures and, every so often, a test; the loss is minus the confirmed mean return."""
        self.interrupted = False
        with self._parts.timed("pictures"):
            self._model.look(log, step, last=last)
        if not self._config.evaluates_at(step) and not (last and self._config.episodes):
            return None
        with self._parts.timed("eval"):
            report = self._examine(step, None if best is None else -best)
        if report is None:
            self.interrupted = True
            return None
        log.scalars(step, report)
        return -report["eval/confirmed"] if "eval/confirmed" in report else None

    def advice(self) -> str:
        return f"{self._model.advice()} {self._policy.advice()}"

    def tensors(self) -> dict[str, Tensor]:
        drawn = {
            key: state
            for name, stream in self._streams.items()
            for key, state in stream.tensors(name).items()
        }
        return self._policy.tensors() | self._model.tensors() | drawn

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self._policy.restore(tensors)
        self._model.restore(tensors)
        for name, stream in self._streams.items():
            stream.restore(name, tensors)
