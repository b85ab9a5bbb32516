"""The collecting stage: a task and a policy in, whole episodes in a dataset out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wmtk.collecting.driver import EpisodeDriver, PlayProgress, make_plans
from wmtk.collecting.policies import Policy
from wmtk.collecting.task_dataset import seed_words
from wmtk.collecting.writer import BackgroundWriter
from wmtk.datasets import Dataset
from wmtk.envs import ResolvedTask
from wmtk.errors import EnvironmentFailedError, UsageError


@dataclass(frozen=True)
class CollectReport:
    """What was collected."""

    path: Path
    version: int
    seed: int
    episodes: int
    steps: int
    frames: int  # steps × action repeat
    mean_return: float
    std_return: float
    dropped: int  # episodes that a failing environment spoiled
    seconds: float
    interrupted: bool
    capacity: int | None = None  # steps beyond which the dataset evicts its oldest episodes
    kept_steps: int = 0  # in the dataset now, those from before among them
    kept_episodes: int = 0

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
    on_progress: Callable[[PlayProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> CollectReport:
    """Play `steps` steps (in whole episodes, so a few more) or `episodes` episodes.

    Each of `envs` environments plays an equal share to the end of its last episode: nothing is
    cut off, so that long episodes are not rarer than they should be. Only where a task has no time
    limit, an episode that still runs when the share is played is cut there, as it is after
    LONGEST_EPISODE steps, and is stored as truncated.

    The environments are spread over `workers` processes; 0 keeps them in this one. The same seed
    gives the same episodes in the same order, however many workers there are. Ctrl-C commits what
    is whole and returns.
    """
    wanted = [number for number in (steps, episodes) if number is not None]
    if len(wanted) != 1 or min(*wanted, envs) < 1:
        raise UsageError("Say how many steps or how many episodes to collect, 1 or more of either.")
    plans = make_plans(
        task,
        dataset.schema,
        policy,
        seed=seed_words(dataset, seed),
        steps=steps,
        episodes=episodes,
        envs=envs,
    )
    play = EpisodeDriver(policy, BackgroundWriter(dataset), on_progress, on_message)
    try:
        interrupted = play.run(plans, workers, timeout)
    except EnvironmentFailedError as error:
        kept = "What was whole before is in the dataset" if play.returns else "Nothing was stored"
        hint = f"{kept}. {error.hint}"
        raise EnvironmentFailedError(error.message, hint) from error
    returns = play.returns
    return CollectReport(
        path=dataset.path,
        version=dataset.version,
        seed=seed,
        episodes=len(returns),
        steps=play.steps,
        frames=play.steps * task.action_repeat,
        mean_return=float(np.mean(returns)) if returns else float("nan"),
        std_return=float(np.std(returns)) if returns else float("nan"),
        dropped=play.dropped,
        seconds=play.seconds,
        interrupted=interrupted,
        capacity=dataset.capacity,
        kept_steps=dataset.num_steps,
        kept_episodes=dataset.num_episodes,
    )
