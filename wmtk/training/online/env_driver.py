"""Collection of an online run: episodes at the train ratio, stored in its replay."""

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

REPORTED = "return/episodes"  # metric: number of episodes included in `return/train` so far
ONE_STEP = 1  # per round, so that updates happen exactly when they are due


class Collector(Protocol):
    """Runs a policy in environments until all plans are complete."""

    @property
    def unfinished_steps(self) -> int:
        """Steps of the episodes that have not ended yet."""

    def rollouts(self) -> Generator[None]:
        """Make some steps per round and add finished episodes to the sink."""


class SyncCollector:
    """Runs the policy in this process, between updates; environments may run in workers."""

    def __init__(
        self, plans: Sequence[EpisodePlan], policy: Policy, env: EnvSetup, sink: EpisodeSink, _: int
    ) -> None:
        self._plans, self._env = plans, env
        self._driver = EpisodeDriver(policy, sink, on_message=env.on_message)

    @property
    def unfinished_steps(self) -> int:
        return self._driver.unfinished_steps

    def rollouts(self) -> Generator[None]:
        return self._driver.rollouts(self._plans, self._env.workers, self._env.timeout, ONE_STEP)


MakeCollector = Callable[[Sequence[EpisodePlan], Policy, EnvSetup, EpisodeSink, int], Collector]


class EnvDriver(DataSource):
    """Collects the steps that are due before each update; stores episodes when they end.

    Steps of unfinished episodes count for the train ratio. If the process ends or an environment
    fails, these steps are lost and the same number is collected again before the next update.
    """

    def __init__(
        self,
        config: OnlineConfig,
        env: EnvSetup,
        replay: Replay,
        policy: Policy,
        timer: Timer,
        sampler: SequenceSampler,
        target: int,
        make_collector: MakeCollector = SyncCollector,
        reported: int | None = None,
    ) -> None:
        """Collect until `target` steps in total; refresh `sampler` after new episodes.

        `reported` is the number of episodes included in `return/train` so far; None means all.
        """
        self._config, self._env, self._replay = config, env, replay
        self._timer, self._target, self._sampler = timer, target, sampler
        plans = make_plans(
            env.task,
            replay.dataset.schema,
            policy,
            seed=seed_entropy(replay.dataset, env.seed),
            steps=max(target - replay.steps, 0),
            envs=config.envs,
        )
        self._collector = make_collector(plans, policy, env, replay, math.ceil(config.train_every))
        self._rollouts = self._collector.rollouts()
        self._reported = replay.episodes if reported is None else reported

    @property
    def steps(self) -> int:
        """Steps of all stored and unfinished episodes."""
        return self._replay.steps + self._collector.unfinished_steps

    def prepare(self, update: int) -> bool:
        return self._collect(self._config.steps_for(update))

    @property
    def is_complete(self) -> bool:
        return self._replay.steps >= self._target and self._reported >= self._replay.episodes

    def finish(self) -> Mapping[str, float]:
        """Finish the running episodes unless a stop is requested; returns their metrics."""
        if self._replay.steps < self._target:
            self._collect(None)
        return self._new_returns()

    def _collect(self, steps: int | None) -> bool:
        """Collect until there are `steps` steps, or all plans are complete.

        Returns False if a stop was requested.
        """
        stored = self._replay.episodes
        with self._timer.timed("collect"):
            while steps is None or self.steps < steps:
                if self._env.stop():
                    return False
                if next(self._rollouts, self) is self:
                    break
                self._env.on_steps(self.steps)
            if self._replay.episodes > stored:
                self._sampler.refresh()
        return True

    def report(self) -> Mapping[str, float]:
        values: dict[str, float] = {
            "steps/agent": self.steps,
            "steps/frames": self.steps * self._env.task.action_repeat,
            "replay/episodes": self._replay.dataset.num_episodes,
            "replay/steps": self._replay.dataset.num_steps,
        }
        shares = self._timer.shares().items()
        values |= {f"share/{name.replace(' ', '_')}": share for name, share in shares}
        return values | self._new_returns()

    def _new_returns(self) -> dict[str, float]:
        """The mean return of episodes since the last report, and the number of reported ones."""
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
    """The number of episodes in a run's metrics up to its checkpoint; None if not recorded."""
    if not run.step:
        return 0  # the returns of random episodes are included in the first report
    counts = [
        r[REPORTED] for r in read_metrics(run.path) if r["step"] <= run.step and r.get(REPORTED)
    ]
    return int(counts[-1]) if counts else None


def prefill(config: OnlineConfig, env: EnvSetup, replay: Replay) -> bool:
    """Collect `online.prefill` random steps; returns False if a stop was requested."""
    stored = replay.steps
    steps = config.prefill - stored
    if steps <= 0:
        return True

    def on_progress(progress: RolloutProgress) -> None:
        if env.stop():
            raise KeyboardInterrupt
        env.on_steps(stored + progress.steps_taken)

    dataset, seed = replay.dataset, env.seed
    dataset.capacity = None  # nothing is evicted before all steps are counted
    report = collect_episodes(
        env.task,
        dataset,
        RandomPolicy(dataset.schema.action, seed_entropy(dataset, seed)),
        seed=seed,
        steps=steps,
        envs=config.envs,
        workers=env.workers,
        timeout=env.timeout,
        on_progress=on_progress,
        on_message=env.on_message,
    )
    dataset.capacity = replay.capacity
    replay.recount()
    return not report.interrupted
