"""The dataset that a task's episodes go into."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wmtk.datasets import Dataset, Schema
from wmtk.datasets.header import is_vacant
from wmtk.envs import ResolvedTask
from wmtk.errors import DatasetError, UsageError
from wmtk.spaces import ArraySpec, check_name, flatten_space


def schema_of(task: ResolvedTask, store_info: Sequence[str] = ()) -> Schema:
    """The arrays that a task's episodes have; `store_info` names what of `info` is kept."""
    env = task.make()
    try:
        structure, obs = flatten_space(env.observation_space)
        action = ArraySpec.from_gymnasium(env.action_space)
        info: dict[str, ArraySpec] = {}
        if store_info:
            _, first = env.reset(seed=0)
            for key in store_info:
                if key not in first:
                    known = ", ".join(sorted(map(str, first))) or "nothing"
                    raise UsageError(
                        f"{task.task} has no info {key!r} at reset.", f"It gives: {known}."
                    )
                value = np.asarray(first[key])
                info[check_name(key, "The info key")] = ArraySpec(
                    "box", value.shape, value.dtype.name
                )
    finally:
        env.close()
    return Schema(obs, action, info=info, structure=structure)


def dataset_for(
    task: ResolvedTask,
    path: str | os.PathLike[str],
    *,
    store_info: Sequence[str] = (),
    capacity: int | None = None,
    append: bool = False,
) -> Dataset:
    """The dataset to collect a task's episodes into: a new one, or an existing one that fits."""
    exists = not is_vacant(Path(path))  # a folder in which an interrupted start left nothing
    if exists and not append:
        raise DatasetError(
            f"{path} exists already.",
            "Pass --append to go on with it, or choose another path.",
            Path(path),
        )
    schema = schema_of(task, store_info)
    if not exists:
        return Dataset.create(path, schema, env=task.settings, capacity=capacity)
    dataset = Dataset.open(path, "a")
    dataset.schema.require_same_arrays(schema, f"{path} and {task.task}")
    if capacity is not None:
        dataset.capacity = capacity
    return dataset
