"""Evaluate a policy: returns of whole episodes of a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wmtk.collecting.driver import EpisodeDriver, RolloutProgress
from wmtk.collecting.env_setup import make_plans
from wmtk.collecting.policies import CallablePolicy, Policy
from wmtk.collecting.recording_policy import (
    RECORDED_ENV,
    EpisodeRecording,
    PolicyIntrospector,
    RecordingPolicy,
)
from wmtk.collecting.task_dataset import schema_of
from wmtk.datasets import Episode, Schema
from wmtk.envs import ResolvedTask, resolve
from wmtk.errors import UsageError
from wmtk.reprs import brief_repr
from wmtk.scores import EvaluationRecord

# Part of all seeds of evaluations and of no seed of collecting, so that their episodes differ.
EVALUATION = int.from_bytes(b"eval")


@dataclass(frozen=True)
class EpisodeResult:
    """The return of one episode, and the prediction of the critic if there is one."""

    total_reward: float
    length: int  # agent steps
    predicted_return: float | None = None  # the critic's value of the first state
    discounted_return: float | None = None  # of the episode, in the unit of the prediction


@dataclass(frozen=True)
class EvalReport:
    """The result of an evaluation."""

    task: str
    policy: str
    seed: int
    results: tuple[EpisodeResult, ...]  # in the order in which the episodes ended
    discount: float | None  # γ of the predicted and discounted returns; None without a critic
    frames: int  # steps × action repeat
    dropped: int  # episodes lost to failures of the environment
    seconds: float
    interrupted: bool
    recording: EpisodeRecording | None = None

    __repr__ = brief_repr

    @property
    def returns(self) -> tuple[float, ...]:
        return tuple(result.total_reward for result in self.results)

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(result.length for result in self.results)

    @property
    def predicted_returns(self) -> tuple[float, ...]:
        """The critic's value at the start of each episode; empty without a critic."""
        predictions = (result.predicted_return for result in self.results)
        return tuple(value for value in predictions if value is not None)

    @property
    def discounted_returns(self) -> tuple[float, ...]:
        """The discounted return of each episode; empty without a critic."""
        returns = (result.discounted_return for result in self.results)
        return tuple(value for value in returns if value is not None)

    def evaluation(self, *, seed: int, agent: str = "", run: str | None = None) -> EvaluationRecord:
        """The record that `wmtk scores` reads; `seed` is the seed of the training run."""
        return EvaluationRecord(self.task, seed, self.returns, self.lengths, agent, run, self.seed)


def evaluate_policy(
    task: ResolvedTask | str,
    policy: Policy | Callable[[Any], Any],
    *,
    episodes: int,
    seed: int,
    envs: int = 1,
    workers: int | None = None,
    timeout: float = 60.0,
    schema: Schema | None = None,
    introspector: PolicyIntrospector | None = None,
    record: bool = False,
    max_episode_steps: int | None = None,
    on_progress: Callable[[RolloutProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> EvalReport:
    """Run exactly `episodes` episodes with a policy, or a function from observation to action.

    Each of `envs` environments runs its share of the episodes to the end, so that short ones are
    not over-represented; other arguments are as in `collect_episodes`. With an `introspector` of
    the policy, the report has the critic's values and the discounted returns. `record` stores the
    first episode of the first environment in the report. In a task without a time limit, episodes
    are truncated after `max_episode_steps` steps, by default MAX_EPISODE_STEPS. Ctrl-C returns the
    finished episodes.
    """
    if min(episodes, envs) < 1:
        raise UsageError("An evaluation takes at least one episode, in one environment.")
    task = resolve(task) if isinstance(task, str) else task
    schema = schema or schema_of(task)
    actor = policy if isinstance(policy, Policy) else CallablePolicy(policy, schema.action)
    introspected = RecordingPolicy(actor, introspector, record=record) if introspector else None
    sink = _ResultSink(actor.name, introspected, record)
    driver = EpisodeDriver(introspected or actor, sink, on_progress, on_message)
    plans = make_plans(
        task,
        schema,
        actor,
        seed=(seed, EVALUATION),
        episodes=episodes,
        envs=envs,
        stored=False,
        max_episode_steps=max_episode_steps,
    )
    interrupted = driver.run(plans, workers, timeout)
    return EvalReport(
        task=task.task,
        policy=actor.name,
        seed=seed,
        results=tuple(sink.results),
        discount=introspector.discount if introspector else None,
        frames=sum(result.length for result in sink.results) * task.action_repeat,
        dropped=driver.dropped,
        seconds=driver.seconds,
        interrupted=interrupted,
        recording=sink.recording,
    )


class _ResultSink:
    """An `EpisodeSink` that stores the result of each episode, and one recording."""

    def __init__(self, policy: str, introspected: RecordingPolicy | None, record: bool) -> None:
        self.results: list[EpisodeResult] = []
        self.recording: EpisodeRecording | None = None
        self._policy = policy
        self._introspected = introspected
        self._record = record

    def add(self, env_index: int, episode: Episode) -> None:
        record = self._record and env_index == RECORDED_ENV and self.recording is None
        if record:
            episode = episode.unpacked()
        if self._introspected is None:
            if record:
                self.recording = EpisodeRecording(episode, self._policy)
            self.results.append(EpisodeResult(episode.total_reward, episode.length))
            return
        values = self._introspected.finish(env_index, episode)
        if record:
            self.recording = self._introspected.recording(episode, values)
        returns = self._introspected.discounted_returns(episode, values)
        self.results.append(
            EpisodeResult(episode.total_reward, episode.length, float(values[0]), float(returns[0]))
        )

    def flush_if_due(self) -> None:
        pass

    def close(self) -> None:
        pass
