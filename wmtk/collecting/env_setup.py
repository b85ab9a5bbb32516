"""Plans of the environments of a run: seeds, and numbers of steps or episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wmtk.collecting.policies import Policy
from wmtk.datasets import Provenance, Schema, Source
from wmtk.envs import ResolvedTask
from wmtk.envs.task import MAX_EPISODE_STEPS
from wmtk.errors import UsageError
from wmtk.version import code_version


@dataclass(frozen=True)
class EnvSetup:
    """A task, the processes that run it, and the callbacks of the run."""

    task: ResolvedTask
    seed: int
    workers: int | None = None  # processes; None: one per core, 0: none
    timeout: float = 60.0  # seconds without a step after which a process is replaced
    stop: Callable[[], bool] = lambda: False  # whether to stop early
    on_steps: Callable[[int], None] = lambda _: None  # receives the number of steps so far
    on_message: Callable[[str], None] = lambda _: None
    max_episode_steps: int | None = None  # for tasks without a time limit

    def with_limit_of(self, sources: Sequence[Source]) -> EnvSetup:
        """Limit episodes to the longest of `sources`, if the task has no time limit.

        Otherwise episodes may never end, and their returns would not be comparable to the data.
        """
        return replace(self, max_episode_steps=longest_episode(sources))


def longest_episode(sources: Sequence[Source]) -> int | None:
    """The number of steps of the longest episode; None without episodes."""
    lengths = [int(source.table().length.max(initial=0)) for source in sources]
    return max(lengths, default=0) or None


@dataclass(frozen=True)
class EpisodePlan:
    """The share of one environment in a run. Picklable, for worker processes."""

    env_index: int
    task: ResolvedTask
    schema: Schema
    provenance: Provenance
    seed: tuple[int, ...]
    steps: int | None  # run whole episodes until this many steps are recorded,
    episodes: int | None  # or run this many episodes
    # For tasks without a time limit: the number of steps after which an episode is truncated. It
    # is also truncated once `steps` are recorded.
    max_episode_steps: int | None = None
    stored: bool = True  # whether actions and observations must be within the bounds of the schema
    attempt: int = 0  # number of failed environments before this one; changes the seed

    @property
    def env_seed(self) -> int:
        sequence = np.random.SeedSequence([*self.seed, self.env_index, self.attempt])
        return int(sequence.generate_state(1)[0] >> 1)  # Gymnasium and ALE take 31 bits


def make_plans(
    task: ResolvedTask,
    schema: Schema,
    policy: Policy,
    *,
    seed: tuple[int, ...],
    steps: int | None = None,
    episodes: int | None = None,
    envs: int = 1,
    stored: bool = True,
    max_episode_steps: int | None = None,
) -> list[EpisodePlan]:
    """Divide `steps` or `episodes` equally among at most `envs` environments.

    Equal shares preserve the distribution of episode lengths; the first episodes to end would be
    too short on average. Episodes of a task without a time limit are truncated after
    `max_episode_steps` steps, by default MAX_EPISODE_STEPS (see also `max_steps`).
    """
    if min(seed) < 0:
        raise UsageError(f"The seed {min(seed)} is negative.", "Use 0 or more.")
    envs = min(envs, episodes or envs)
    provenance = Provenance(
        env_id=task.env_id,
        env_kwargs=task.kwargs,
        env_versions=task.versions,
        policy=policy.name,
        checkpoint=policy.checkpoint,
        code_version=code_version(),
    )
    limit = (max_episode_steps or MAX_EPISODE_STEPS) if task.time_limit is None else None
    return [
        EpisodePlan(
            env_index=index,
            stored=stored,
            task=task,
            schema=schema,
            provenance=provenance,
            seed=seed,
            steps=None if steps is None else -(-steps // envs),
            episodes=None if episodes is None else (episodes + envs - 1 - index) // envs,
            max_episode_steps=limit,
        )
        for index in range(envs)
    ]


def max_steps(task: ResolvedTask, steps: int, envs: int) -> int:
    """The largest number of steps that collecting `steps` steps in `envs` environments takes.

    With a time limit, running episodes are finished. Without one they are truncated.
    """
    return envs * (-(-steps // envs) + (task.time_limit or 1) - 1)
