"""Create or open the dataset for the episodes of a task."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wmtk.datasets import Dataset, Schema
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.header import is_vacant, read_header
from wmtk.datasets.storage.opening import remove_if_empty
from wmtk.envs import ResolvedTask
from wmtk.errors import (
    FOREIGN,
    DatasetError,
    EnvironmentApiError,
    EnvironmentFailedError,
    UsageError,
)
from wmtk.spaces import ArraySpec, check_name, flatten_space

# Part of the seed of all writers except the first; larger than any index of an environment.
WRITER = int.from_bytes(b"writer")


def schema_of(task: ResolvedTask, store_info: Sequence[str] = ()) -> Schema:
    """The schema of a task's episodes; `store_info` names the keys of `info` to store."""
    env = task.make()
    try:
        structure, obs = flatten_space(env.observation_space)
        action = ArraySpec.from_gymnasium(env.action_space)
        info: dict[str, ArraySpec] = {}
        if store_info:
            try:
                _, first = env.reset(seed=0)
            except EnvironmentApiError:
                raise
            except FOREIGN as error:
                reason = f"{type(error).__name__}: {error}"
                raise EnvironmentFailedError(f"{task.task} fails at reset: {reason}") from error
            for key in store_info:
                if key not in first:
                    known = ", ".join(sorted(map(str, first))) or "none"
                    raise UsageError(
                        f"The info of {task.task} at reset has no key {key!r}.", f"Keys: {known}."
                    )
                value = np.asarray(first[key])
                info[check_name(key, "The info key")] = ArraySpec(
                    "box", value.shape, value.dtype.name
                )
    finally:
        with contextlib.suppress(*FOREIGN):
            env.close()
    return Schema(obs, action, info=info, structure=structure)


def seed_entropy(dataset: Dataset, seed: int) -> tuple[int, ...]:
    """The entropy, for a numpy SeedSequence, of the next episodes of a dataset.

    It depends on the number of episodes in the dataset and on the writer, so that repeated and
    concurrent calls with the same seed collect different episodes. A single writer is
    reproducible.
    """
    writer = dataset.writer
    dataset.refresh()  # after `writer`: now all episodes of the last writer of this number count
    entropy = (seed, dataset.next_episode)
    return entropy if writer == 0 else (*entropy, WRITER + writer)


def dataset_for(
    task: ResolvedTask,
    path: str | os.PathLike[str],
    *,
    store_info: Sequence[str] = (),
    capacity: int | None = None,
    append: bool = False,
) -> Dataset:
    """Create a dataset for the episodes of a task, or with `append` open an existing one.

    A new dataset without episodes is removed when it is closed.
    """
    path = atomic.absolute_path(path)
    exists = not is_vacant(path)  # False also for a folder of an interrupted creation
    if exists and not append and _was_never_used(path):
        exists = not remove_if_empty(path)
    if exists and not append:
        is_dataset = (path / "zarr.json").is_file()
        hint = "Pass append=True to add to it, or choose another path."
        raise DatasetError(
            f"{path} exists already{'' if is_dataset else ' and is not a dataset'}.",
            hint if is_dataset else "Choose another path.",
            path,
        )
    schema = schema_of(task, store_info)
    if not exists:
        return Dataset.create(path, schema, env=task.settings, capacity=capacity, provisional=True)
    dataset = Dataset.open(path, "a")
    dataset.schema.require_same_arrays(schema, f"{path} and {task.task}")
    if capacity is not None:
        dataset.capacity = capacity
    return dataset


def _was_never_used(path: Path) -> bool:
    """Whether a dataset was created for collecting and never received an episode."""
    try:
        header = read_header(path)
    except DatasetError:
        return False
    return bool(header["env"]) and not header["attributes"]
