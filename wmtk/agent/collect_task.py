"""`wmtk.collect`: run a policy in a task and store the episodes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wmtk.agent.named_policy import PolicyLike, acting_threads, agent_of, named_task, policy_maker
from wmtk.collecting import (
    CollectReport,
    EpsilonGreedy,
    RolloutProgress,
    collect_episodes,
    dataset_for,
    schema_of,
    seed_entropy,
)
from wmtk.envs import ResolvedTask
from wmtk.errors import UsageError


def collect(
    task: str | ResolvedTask,
    out: str | os.PathLike[str],
    *,
    steps: int | None = None,
    episodes: int | None = None,
    policy: PolicyLike = "random",
    explore: bool = False,
    epsilon: float = 0.0,
    envs: int = 4,
    workers: int | None = 0,
    seed: int | None = None,
    append: bool = False,
    capacity: int | None = None,
    store_info: Sequence[str] = (),
    env_options: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
    on_start: Callable[[ResolvedTask], None] = lambda _: None,
    on_progress: Callable[[RolloutProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
) -> CollectReport:
    """Run a policy in a task and store whole episodes in the dataset `out`.

    Pass exactly one of `steps` and `episodes`. Running episodes are finished, so that a few more
    steps than `steps` are stored. The same seed gives the same dataset.

    Example:
        >>> import wmtk
        >>> report = wmtk.collect("wmtk/Catch-v0", "catch.zarr", episodes=8, seed=0)
        >>> report.episodes
        8
        >>> wmtk.Dataset.open("catch.zarr").num_episodes
        8

    Args:
        task: `atari_<game>`, `dmc_<domain>_<task>`, a gymnasium id, or `module:Id`.
        out: Path of the dataset to write.
        steps: Agent steps to collect.
        episodes: Episodes to collect.
        policy: `"random"`, the run directory of a trained policy, `"package.module:function"`, a
            function from an observation to an action, a loaded agent, or a `Policy`. The actions of
            trained policies are sampled.
        explore: Use the explorer of the run, which maximizes the disagreement of its ensemble.
        epsilon: Probability of replacing an action by a random one.
        envs: Environments that run in parallel.
        workers: Processes for the environments; 0 runs them in this process. None starts one per
            core, except for the environments of wmtk, which are faster without.
        seed: None draws a random seed, which the report contains.
        append: Add to an existing dataset; without it, an existing `out` is an error.
        capacity: Steps beyond which the dataset evicts its oldest episodes. Datasets store it.
        store_info: Keys of the environment's `info` to store.
        env_options: Options of the environment, such as `{"rgb": True}`.
        timeout: Seconds without a step after which a worker process is replaced.
        on_start: Called with the resolved task once the arguments are checked, before the dataset
            is created.
        on_progress: Called after each round of steps.
        on_message: Called with warnings.

    Returns:
        A report with counts, returns and speed. Ctrl-C stores the whole episodes and returns a
        report with `interrupted=True`.
    """
    if (steps is None) == (episodes is None):
        raise UsageError(
            f"steps is {steps} and episodes is {episodes}.", "Pass exactly one of them."
        )
    resolved = named_task(task, env_options)
    agent = agent_of(policy, "latest", "cpu")
    make_policy = policy_maker(
        agent or policy, lambda: schema_of(resolved), explore=explore, sample=True
    )  # before the dataset is created: an unknown policy leaves no empty dataset
    on_start(resolved)
    seed = secrets.randbelow(2**31) if seed is None else seed
    opened = dataset_for(resolved, out, store_info=store_info, capacity=capacity, append=append)
    with opened as dataset, acting_threads(agent):
        entropy = seed_entropy(dataset, seed)
        actor = make_policy(dataset.schema, entropy)
        if epsilon:
            actor = EpsilonGreedy(actor, epsilon, dataset.schema.action, entropy)
        report = collect_episodes(
            resolved,
            dataset,
            actor,
            seed=seed,
            steps=steps,
            episodes=episodes,
            envs=envs,
            workers=workers,
            timeout=timeout,
            on_progress=on_progress,
            on_message=on_message,
        )
    return replace(report, path=Path(out))
