"""Collect episodes of a task with a policy into a dataset."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wmtk.collecting.driver import EpisodeDriver, RolloutProgress
from wmtk.collecting.env_setup import make_plans
from wmtk.collecting.policies import Policy
from wmtk.collecting.task_dataset import seed_entropy
from wmtk.datasets import Dataset, Episode
from wmtk.envs import ResolvedTask
from wmtk.errors import EnvironmentFailedError, UsageError

FLUSH_STEPS = 4096  # steps per commit
FLUSH_SECONDS = 10.0  # maximal time between commits, and so the most that a crash can lose


@dataclass(frozen=True)
class CollectReport:
    """The result of collecting."""

    path: Path
    version: int
    seed: int
    episodes: int
    steps: int
    frames: int  # steps × action repeat
    mean_return: float
    std_return: float
    dropped: int  # episodes lost to failures of the environment
    seconds: float
    interrupted: bool
    capacity: int | None = None  # steps beyond which the dataset evicts the oldest episodes
    kept_steps: int = 0  # in the dataset after the call
    kept_episodes: int = 0  # in the dataset after the call

    @property
    def steps_per_second(self) -> float:
        return self.steps / max(self.seconds, 1e-9)


def collect_episodes(
    task: ResolvedTask,
    dataset: Dataset,
    policy: Policy,
    *,
    seed: int,
    steps: int | None = None,
    episodes: int | None = None,
    envs: int = 1,
    workers: int | None = None,
    timeout: float = 60.0,
    on_progress: Callable[[RolloutProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> CollectReport:
    """Collect at least `steps` steps in whole episodes, or exactly `episodes` episodes.

    Each of `envs` environments runs an equal share to the end of its last episode, since cutting
    episodes off would under-represent long ones. In tasks without a time limit, the running episode
    is truncated once the share is complete or after MAX_EPISODE_STEPS steps.

    The environments are divided among `workers` processes; 0 runs them in this process. The same
    seed gives the same episodes in the same order for any number of workers. Ctrl-C commits the
    whole episodes and returns.
    """
    amounts = [number for number in (steps, episodes) if number is not None]
    if len(amounts) != 1 or min(*amounts, envs) < 1:
        raise UsageError("Give either steps or episodes to collect, 1 or more.")
    plans = make_plans(
        task,
        dataset.schema,
        policy,
        seed=seed_entropy(dataset, seed),
        steps=steps,
        episodes=episodes,
        envs=envs,
    )
    driver = EpisodeDriver(policy, BackgroundWriter(dataset), on_progress, on_message)
    try:
        interrupted = driver.run(plans, workers, timeout)
    except EnvironmentFailedError as error:
        stored = "The whole episodes are stored" if driver.returns else "Nothing was stored"
        raise type(error)(error.message, f"{stored}. {error.hint}") from error
    returns = driver.returns
    return CollectReport(
        path=dataset.path,
        version=dataset.version,
        seed=seed,
        episodes=len(returns),
        steps=driver.steps,
        frames=driver.steps * task.action_repeat,
        mean_return=float(np.mean(returns)) if returns else float("nan"),
        std_return=float(np.std(returns)) if returns else float("nan"),
        dropped=driver.dropped,
        seconds=driver.seconds,
        interrupted=interrupted,
        capacity=dataset.capacity,
        kept_steps=dataset.num_steps,
        kept_episodes=dataset.num_episodes,
    )


class BackgroundWriter:
    """An `EpisodeSink` that appends to a dataset in a thread, one commit at a time."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="wmtk-writer")
        self._pending: Future[int] | None = None
        self._episodes: list[Episode] = []
        self._flushed = time.monotonic()

    def add(self, env_index: int, episode: Episode) -> None:
        self._episodes.append(episode)
        if sum(pending.length for pending in self._episodes) >= FLUSH_STEPS:
            self.flush()

    def flush_if_due(self) -> None:
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Wait for the previous commit, raise its error if it failed, and start the next one."""
        self._wait()
        if self._episodes:
            self._pending = self._pool.submit(self.dataset.append, self._episodes)
            self._episodes = []
        self._flushed = time.monotonic()

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Commit the remaining episodes."""
        try:
            self.flush()
            self._wait()
        finally:
            self._pool.shutdown()
