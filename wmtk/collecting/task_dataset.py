"""The dataset that a task's episodes go into."""

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
from wmtk.errors import FOREIGN, DatasetError, EnvironmentFailedError, UsageError
from wmtk.spaces import ArraySpec, check_name, flatten_space

# Part of the seeds of all writers but the first: no number of a slot or an attempt is as large.
WRITER = int.from_bytes(b"writer")


def schema_of(task: ResolvedTask, store_info: Sequence[str] = ()) -> Schema:
    """The arrays that a task's episodes have; `store_info` names what of `info` is kept."""
    env = task.make()
    try:
        structure, obs = flatten_space(env.observation_space)
        action = ArraySpec.from_gymnasium(env.action_space)
        info: dict[str, ArraySpec] = {}
        if store_info:
            try:
                _, first = env.reset(seed=0)
            except FOREIGN as error:
                reason = f"{type(error).__name__}: {error}"
                raise EnvironmentFailedError(f"{task.task} fails at reset: {reason}") from error
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
        with contextlib.suppress(*FOREIGN):
            env.close()
    return Schema(obs, action, info=info, structure=structure)


def seed_words(dataset: Dataset, seed: int) -> tuple[int, ...]:
    """What play that goes into a dataset next is seeded with.

    The same seed gives other episodes as the dataset grows, and to each of several writers that
    are at work at the same time. An only writer gives the same dataset again.
    """
    number = dataset.writer
    dataset.refresh()  # afterwards: the previous holder of the number has committed its episodes
    plain = (seed, dataset.next_episode)
    return plain if number == 0 else (*plain, WRITER + number)


def dataset_for(
    task: ResolvedTask,
    path: str | os.PathLike[str],
    *,
    store_info: Sequence[str] = (),
    capacity: int | None = None,
    append: bool = False,
) -> Dataset:
    """The dataset to collect a task's episodes into: a new one, or an existing one that fits.

    A new one is removed when it is closed without an episode in it, so that the next attempt does
    not find it in its way.
    """
    path = atomic.absolute_path(path)
    exists = not is_vacant(path)  # a folder in which an interrupted start left nothing
    if exists and not append and _was_never_used(path):
        exists = not remove_if_empty(path)
    if exists and not append:
        is_dataset = (path / "zarr.json").is_file()
        hint = "Pass --append to go on with it, or choose another path."
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
    """Whether a dataset is one that collecting made, and was killed before its first episode."""
    try:
        header = read_header(path)
    except DatasetError:
        return False
    return bool(header["env"]) and not header["attributes"]
