"""The evaluating stage: a task and a policy in, returns of whole episodes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wmtk.collecting.driver import EpisodeDriver, PlayProgress, make_plans
from wmtk.collecting.policies import CallablePolicy, Policy
from wmtk.collecting.recording_policy import (
    RECORDED,
    PolicyIntrospector,
    Recording,
    RecordingPolicy,
    discounted_returns,
)
from wmtk.collecting.task_dataset import schema_of
from wmtk.datasets import Episode, Schema
from wmtk.envs import ResolvedTask, resolve
from wmtk.errors import UsageError
from wmtk.reprs import brief_repr
from wmtk.scores import EvaluationRecord

# Part of every seed here, and of none in collecting: no episode of the training data is played.
EVALUATION = int.from_bytes(b"eval")


@dataclass(frozen=True)
class Trial:
    """One episode, and what its policy expected of it, where that can be known."""

    total_reward: float
    length: int  # agent steps
    imagined: float | None = None  # the critic's value of the first state
    discounted: float | None = None  # what came instead


@dataclass(frozen=True)
class EvalReport:
    """What was played."""

    task: str
    policy: str
    seed: int
    trials: tuple[Trial, ...]  # in the order in which they ended
    discount: float | None  # γ of `imagined` and `discounted`; None if nobody looked
    frames: int  # steps × action repeat
    dropped: int  # episodes that a failing environment spoiled
    seconds: float
    interrupted: bool
    recording: Recording | None = None

    __repr__ = brief_repr

    @property
    def returns(self) -> tuple[float, ...]:
        return tuple(trial.total_reward for trial in self.trials)

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(trial.length for trial in self.trials)

    @property
    def imagined(self) -> tuple[float, ...]:
        """What the critic expected at the start of each episode; empty if nobody looked."""
        return tuple(trial.imagined for trial in self.trials if trial.imagined is not None)

    @property
    def discounted(self) -> tuple[float, ...]:
        """What came of each episode, discounted in the same way."""
        return tuple(trial.discounted for trial in self.trials if trial.discounted is not None)

    def evaluation(self, *, seed: int, agent: str = "", run: str | None = None) -> EvaluationRecord:
        """The record that `wmtk scores` reads; `seed` is that of the training."""
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
    mind: PolicyIntrospector | None = None,
    record: bool = False,
    longest: int | None = None,
    on_progress: Callable[[PlayProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> EvalReport:
    """Play exactly `episodes` episodes with a policy and record their returns.

    The policy may be a function from an observation to an action.

    Each of `envs` environments plays its share of them to the end, so that short ones do not count
    more; everything else is as in `collect_episodes`. With the policy's `mind` the critic's value
    is compared with the real return, and `record` keeps the first episode of the first environment.
    A task without a time limit is cut after `longest` steps, by default LONGEST_EPISODE. Ctrl-C
    ends it with the episodes that are whole.
    """
    if min(episodes, envs) < 1:
        raise UsageError("An evaluation takes at least one episode, in one environment.")
    task = resolve(task) if isinstance(task, str) else task
    schema = schema or schema_of(task)
    actor = policy if isinstance(policy, Policy) else CallablePolicy(policy, schema.action)
    watched = RecordingPolicy(actor, mind, record=record) if mind is not None else None
    player = watched or actor
    kept = _Trials(player.name, watched, mind.discount if mind is not None else None, record)
    play = EpisodeDriver(player, kept, on_progress, on_message)
    plans = make_plans(
        task,
        schema,
        player,
        seed=(seed, EVALUATION),
        episodes=episodes,
        envs=envs,
        stored=False,
        longest=longest,
    )
    interrupted = play.run(plans, workers, timeout)
    trials = tuple(kept.trials)
    return EvalReport(
        task=task.task,
        policy=actor.name,
        seed=seed,
        trials=trials,
        discount=kept.discount,
        frames=sum(trial.length for trial in trials) * task.action_repeat,
        dropped=play.dropped,
        seconds=play.seconds,
        interrupted=interrupted,
        recording=kept.recording,
    )


class _Trials:
    """Takes episodes and keeps what is asked of them."""

    def __init__(
        self, policy: str, watched: RecordingPolicy | None, discount: float | None, record: bool
    ) -> None:
        self.trials: list[Trial] = []
        self.recording: Recording | None = None
        self.discount = discount
        self._policy = policy
        self._watched = watched
        self._record = record

    def add(self, slot: int, episode: Episode) -> None:
        recorded = self._record and slot == RECORDED and self.recording is None
        if recorded:
            episode = episode.unpacked()  # it will be drawn
        if self._watched is None or self.discount is None:
            if recorded:
                self.recording = Recording(episode, self._policy)
            self.trials.append(Trial(episode.total_reward, episode.length))
            return
        values = self._watched.finish(slot, episode)
        if recorded:
            self.recording = self._watched.recording(episode, values)
        rewards = self._watched.true_rewards(episode)
        came = float(discounted_returns(episode, self.discount, values, rewards)[0])
        self.trials.append(Trial(episode.total_reward, episode.length, float(values[0]), came))

    def flush_if_due(self) -> None:
        pass

    def close(self) -> None:
        pass
