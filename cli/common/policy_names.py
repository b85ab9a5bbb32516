"""Policies by name: `random`, `package.module:function`, or the run directory of a trained one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.collecting import Policy
    from wmtk.datasets import Schema

PolicyMaker = Callable[["Schema", Sequence[int]], "Policy"]  # of the spaces, and of a seed


def find_policy_maker(
    name: str, task_schema: Callable[[], Schema], *, explore: bool = False
) -> PolicyMaker:
    """How to make the policy of a name; one that does not exist or fit is refused right here.

    `explore` takes the actor of a run that goes where its model is uncertain.
    """
    from wmtk.collecting import find_policy, load_policy

    if not os.path.lexists(Path(name) / "run.json"):
        find_policy(name)
        if explore:
            raise UsageError(
                f"{name} knows no world model whose members could disagree.",
                "--explore disagreement takes a --policy RUN that was trained with it.",
            )
        return lambda schema, seed: load_policy(name, schema.action, seed)
    from wmtk.agent.device import tune_threads
    from wmtk.agent.load import load
    from wmtk.datasets.schema_match import require_fit

    agent = load(name)
    tune_threads(rows=1, depth=agent.model.config.cnn_depth)  # acting is little work
    agent.make_policy(sample=True, explore=explore)  # which a model without an actor refuses
    require_fit(agent.data_schema, task_schema(), f"The policy of {name} and the task")
    return lambda schema, seed: agent.make_policy(sample=True, seed=seed, explore=explore)
