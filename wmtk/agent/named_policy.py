"""Policies as arguments: a name, a run directory, a loaded agent, a function or a policy.

Torch is imported for runs and agents only: random policies and functions work without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from wmtk.agent import require_packages
from wmtk.collecting import CallablePolicy, Policy, RandomPolicy, find_policy
from wmtk.datasets import Schema
from wmtk.datasets.schema_match import require_fit
from wmtk.envs import ResolvedTask, resolve
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedModel

PolicyLike: TypeAlias = "str | os.PathLike[str] | LoadedModel | Policy | Callable[[Any], Any]"


def is_run(policy: PolicyLike) -> bool:
    """Whether `policy` is the path of a run directory."""
    if not isinstance(policy, str | os.PathLike):
        return False
    return isinstance(policy, os.PathLike) or os.path.lexists(Path(policy) / "run.json")


def _is_loaded(policy: PolicyLike) -> TypeGuard[LoadedModel]:
    """Whether `policy` is a loaded model; does not import its module."""
    module = sys.modules.get("wmtk.agent.load")
    return module is not None and isinstance(policy, module.LoadedModel)


def agent_of(policy: PolicyLike, checkpoint: str, device: str) -> LoadedModel | None:
    """The loaded model of `policy`, if it is a run directory or a loaded model; else None."""
    if _is_loaded(policy):
        return policy
    if isinstance(policy, str | os.PathLike) and is_run(policy):
        require_packages("A trained policy")
        from wmtk.agent.device import choose_device
        from wmtk.agent.load import load

        return load(policy, checkpoint, choose_device(device))
    return None


def named_task(task: str | ResolvedTask, env_options: Mapping[str, Any] | None) -> ResolvedTask:
    """`task` with the options of `env_options`."""
    if isinstance(task, str):
        return resolve(task, **(env_options or {}))
    if env_options:
        raise UsageError(
            f"env_options {dict(env_options)} cannot change a task that is already resolved.",
            "Pass the name of the task, or the options to wmtk.resolve.",
        )
    return task


def policy_maker(
    policy: PolicyLike, task_schema: Callable[[], Schema], *, explore: bool, sample: bool
) -> Callable[[Schema, Sequence[int]], Policy]:
    """A function (schema, seed) → policy.

    Raises for a policy that does not exist or does not fit the task.
    """
    agent = agent_of(policy, "latest", "cpu")
    if agent is not None:
        agent.make_policy(sample=sample, explore=explore)  # raises for a run without this actor
        require_fit(
            agent.data_schema, task_schema(), f"The policy of {agent.run.path} and the task"
        )
        return lambda schema, seed: agent.make_policy(sample=sample, seed=seed, explore=explore)
    if explore:
        raise UsageError(
            f"{policy_name(policy)} has no ensemble, whose disagreement an explorer maximizes.",
            "Pass the run directory of a policy trained with behavior.explore=disagreement.",
        )
    return simple_policy(policy)


def simple_policy(policy: PolicyLike) -> Callable[[Schema, Sequence[int]], Policy]:
    """Like `policy_maker`, for policies without a world model."""
    if isinstance(policy, Policy):
        return lambda schema, seed: policy
    if isinstance(policy, str):
        function = find_policy(policy)
        if function is None:
            return lambda schema, seed: RandomPolicy(schema.action, seed)
        return lambda schema, seed: CallablePolicy(function, schema.action, policy)
    assert callable(policy), policy
    return lambda schema, seed: CallablePolicy(policy, schema.action)


def policy_name(policy: PolicyLike) -> str:
    """The name of a policy in messages and records."""
    if isinstance(policy, str | os.PathLike):
        return os.fspath(policy)
    if _is_loaded(policy):
        return str(policy.run.path)
    return str(getattr(policy, "name", "") or getattr(policy, "__qualname__", "callable"))


@contextmanager
def acting_threads(agent: LoadedModel | None) -> Iterator[None]:
    """Within the block, torch uses one thread if the model is small."""
    if agent is None:
        yield
        return
    from wmtk.agent.device import tuned_threads

    with tuned_threads(rows=1, depth=agent.model.config.cnn_depth):
        yield
