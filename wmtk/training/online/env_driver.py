"""What an online run learns from: episodes that are played while it learns, at the train ratio."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from statistics import fmean
from typing import Any, Protocol

from wmtk.collecting import RandomPolicy, RolloutProgress, collect_episodes, seed_entropy
from wmtk.collecting.driver import EpisodeDriver, EpisodeSink
from wmtk.collecting.env_setup import EnvSetup, EpisodePlan, make_plans
from wmtk.collecting.policies import Policy
from wmtk.datasets import SequenceSampler
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.replay import Replay
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import OnlineConfig
from wmtk.training.loop import DataSource
from wmtk.training.timing import Timer

REPORTED = "return/episodes"  # of how many episodes `return/train` was reported so far
ONE_STEP = 1  # at a time, so that learning comes in between exactly when it is due


class Collector(Protocol):
    """Where a policy plays, until its plans are fulfilled."""

    @property
    def unfinished_steps(self) -> int:
        """Steps of the episodes that have not ended yet, as far as is known."""

    def rollouts(self) -> Generator[None]:
        """Some steps at a time; the episodes that have ended meanwhile are in the replay."""


class SyncCollector:
    """Plays in this process when it is asked to; the environments may have processes."""

    def __init__(
        self,
        plans: Sequence[EpisodePlan],
        policy: Policy,
        playing: EnvSetup,
        sink: EpisodeSink,
        _: int,
    ) -> None:
        self._plans, self._playing = plans, playing
        self._driver = EpisodeDriver(policy, sink, on_message=playing.on_message)

    @property
    def unfinished_steps(self) -> int:
        return self._driver.unfinished_steps

    def rollouts(self) -> Generator[None]:
        return self._driver.rollouts(
            self._plans, self._playing.workers, self._playing.timeout, ONE_STEP
        )


MakeTable = Callable[[Sequence[EpisodePlan], Policy, EnvSetup, EpisodeSink, int], Collector]


class EnvDriver(DataSource):
    """Plays as many steps as the next update waits for; stores each episode once it is whole.

    Steps of unfinished episodes count for the train ratio. If a process ends or an environment
    fails, those are lost, and as many are played again before the next update.
    """

    def __init__(
        self,
        config: OnlineConfig,
        playing: EnvSetup,
        replay: Replay,
        policy: Policy,
        parts: Timer,
        target: int,
        table: MakeTable = SyncCollector,
        *,
        reported: int | None = None,
    ) -> None:
        """`reported` is of how many episodes there were reports; None is of all so far."""
        self._config, self._playing, self._replay = config, playing, replay
        self._parts, self._target = parts, target
        self._sampler: SequenceSampler | None = None
        plans = make_plans(
            playing.task,
            replay.dataset.schema,
            policy,
            seed=seed_entropy(replay.dataset, playing.seed),
            steps=max(target - replay.steps, 0),
            envs=config.envs,
        )
        self._table = table(plans, policy, playing, replay, math.ceil(config.train_every))
        self._rollouts = self._table.rollouts()
        self._reported = replay.episodes if reported is None else reported

    @property
    def steps(self) -> int:
        """All that were ever played and not lost."""
        return self._replay.steps + self._table.unfinished_steps

    def follow(self, sampler: SequenceSampler) -> None:
        """The sampler is to know of every episode that comes."""
        self._sampler = sampler

    def prepare(self, update: int) -> bool:
        return self._play_to(self._config.steps_for(update))

    @property
    def is_complete(self) -> bool:
        return self._replay.steps >= self._target and self._reported >= self._replay.episodes

    def finish(self) -> Mapping[str, float]:
        """Finish the running episodes unless a stop is requested; return their metrics."""
        if self._replay.steps < self._target:
            self._play_to(None)
        return self._new_returns()

    def _play_to(self, steps: int | None) -> bool:
        """EpisodeDriver until there are so many steps, or to the end."""
        known = self._replay.episodes
        with self._parts.timed("collect"):
            while steps is None or self.steps < steps:
                if self._playing.stop():
                    return False
                if next(self._rollouts, self) is self:
                    break
                self._playing.on_steps(self.steps)
            if self._sampler is not None and self._replay.episodes > known:
                self._sampler.refresh()
        return True

    def report(self) -> Mapping[str, float]:
        values: dict[str, float] = {
            "steps/agent": self.steps,
            "steps/frames": self.steps * self._playing.task.action_repeat,
            "replay/episodes": self._replay.dataset.num_episodes,
            "replay/steps": self._replay.dataset.num_steps,
        }
        shares = self._parts.shares().items()
        values |= {f"share/{name.replace(' ', '_')}": share for name, share in shares}
        return values | self._new_returns()

    def _new_returns(self) -> dict[str, float]:
        """The mean return of the episodes that no report had, and how many ever had one."""
        replay = self._replay
        new = replay.returns[max(len(replay.returns) - replay.episodes + self._reported, 0) :]
        self._reported = replay.episodes
        return {"return/train": fmean(new), REPORTED: replay.episodes} if new else {}

    def state(self) -> Mapping[str, Any]:
        return {"agent_steps": self._target}

    def __enter__(self) -> EnvDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self._rollouts.close()


def reported_episodes(run: Run) -> int | None:
    """How many episodes are in a run's reports up to its checkpoint; None if it does not say."""
    if not run.step:
        return 0  # the returns of random play are reported with the first ones
    found = [
        r[REPORTED] for r in read_metrics(run.path) if r["step"] <= run.step and r.get(REPORTED)
    ]
    return int(found[-1]) if found else None


def prefill(config: OnlineConfig, playing: EnvSetup, replay: Replay) -> bool:
    """Random play, as `wmtk collect` does it; False if somebody said stop."""
    begun_at = replay.steps
    steps = config.prefill - begun_at
    if steps <= 0:
        return True

    def watch(progress: RolloutProgress) -> None:
        if playing.stop():
            raise KeyboardInterrupt
        playing.on_steps(begun_at + progress.steps_taken)

    dataset, seed = replay.dataset, playing.seed
    dataset.capacity = None  # until the steps are counted, none may go
    report = collect_episodes(
        playing.task,
        dataset,
        RandomPolicy(dataset.schema.action, seed_entropy(dataset, seed)),
        seed=seed,
        steps=steps,
        envs=config.envs,
        workers=playing.workers,
        timeout=playing.timeout,
        on_progress=watch,
        on_message=playing.on_message,
    )
    dataset.capacity = replay.capacity
    replay.recount()
    return not report.interrupted
