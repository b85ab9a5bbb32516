"""`merge`, `split` and `filter_episodes`: new datasets from existing ones, written atomically."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode
from wmtk.datasets.episode_table import EpisodeTable, Mask, Selection
from wmtk.datasets.episode_table import split as split_selection
from wmtk.datasets.integrity.validate import Progress
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic
from wmtk.datasets.storage.compaction import TARGET_STEPS
from wmtk.datasets.storage.header import read_header
from wmtk.errors import DatasetError, SchemaMismatchError, UsageError
from wmtk.spaces import ArraySpec, Bound

MAX_BATCH_BYTES = 256 * 2**20  # of raw rows, for datasets with large frames
PathOrDataset = str | os.PathLike[str] | Dataset


@dataclass(frozen=True)
class TransformReport:
    """A dataset that was written from others."""

    path: Path
    episodes: int
    steps: int
    dropped: int = 0  # episodes of the sources that are not in it


def merge(
    sources: Sequence[PathOrDataset],
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TransformReport:
    """Write all episodes of several datasets, in order, as one dataset.

    The sources must have the same arrays; the result has the wider ones of differing bounds.

    Example:
        >>> from wmtk.datasets import merge
        >>> merge(["catch.zarr", "catch.zarr"], "twice.zarr").episodes
        16
    """
    if not sources:
        raise UsageError("No dataset to merge.", "Pass at least one dataset.")
    with contextlib.ExitStack() as stack:
        opened = [open_source(source, stack) for source in sources]
        schema = opened[0].schema
        for other in opened[1:]:
            schema = _joint_schema(schema, other.schema, f"{opened[0].path} and {other.path}")
        selected = [(dataset, dataset.episodes) for dataset in opened]
        return write_new(selected, Path(target), schema, "merge", overwrite, progress)


def filter_episodes(
    source: PathOrDataset,
    target: str | os.PathLike[str],
    selection: Selection,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TransformReport:
    """Write the episodes of a dataset that `selection` is true for as a new dataset.

    Example:
        >>> from wmtk.datasets import filter_episodes, select
        >>> filter_episodes("catch.zarr", "best.zarr", select(min_return=-1.0)).episodes
        4
    """
    with contextlib.ExitStack() as stack:
        dataset = open_source(source, stack)
        selected = dataset.episodes.where(selection(dataset.episodes))
        if not len(selected):
            raise UsageError(
                f"None of the {len(dataset)} episodes of {dataset.path} fits; nothing was written.",
                f"`wmtk data info {shlex.quote(str(dataset.path))}` shows what it holds.",
            )
        return write_new(
            [(dataset, selected)], Path(target), dataset.schema, "filter", overwrite, progress
        )


def split(
    source: PathOrDataset,
    target_train: str | os.PathLike[str],
    target_val: str | os.PathLike[str],
    fraction: float,
    seed: int = 0,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> tuple[TransformReport, TransformReport]:
    """Write a training dataset, and one with about `fraction` of the episodes for validation.

    The side of an episode depends on its content and the seed only.
    """
    if Path(target_train).absolute() == Path(target_val).absolute():
        raise UsageError("Both sides of the split have the same path.", "Use two paths.")
    with contextlib.ExitStack() as stack:
        dataset = open_source(source, stack)
        held_out = split_selection(fraction, held_out=True, seed=seed)(dataset.episodes)
        if not held_out.any() or held_out.all():
            raise UsageError(
                f"{dataset.path} has {len(dataset)} episodes: one side would be empty.",
                "Split at least two episodes, by a fraction above 0.",
            )
        sides: list[TransformReport] = []
        total = len(dataset)
        for target, mask in ((target_train, ~held_out), (target_val, held_out)):
            before = sum(side.episodes for side in sides)
            shifted = _shifted(progress, before, total)
            selected = [(dataset, dataset.episodes.where(mask))]
            side = write_new(selected, Path(target), dataset.schema, "split", overwrite, shifted)
            sides.append(side)
        return sides[0], sides[1]


# --- selecting --------------------------------------------------------------------------------


def by_provenance(
    dataset: Dataset,
    *,
    policy: str | None = None,
    env_id: str | None = None,
    checkpoint: str | None = None,
    code_version: str | None = None,
) -> Selection:
    """Select the episodes of a dataset by provenance; patterns may contain `*` and `?`.

    Example:
        >>> from wmtk.datasets import Dataset, by_provenance, filter_episodes
        >>> selection = by_provenance(Dataset.open("catch.zarr"), policy="rand*")
        >>> filter_episodes("catch.zarr", "random.zarr", selection).episodes
        8
    """
    conditions = {
        "policy": policy,
        "env_id": env_id,
        "checkpoint": checkpoint,
        "code_version": code_version,
    }
    patterns = {key: pattern for key, pattern in conditions.items() if pattern is not None}

    def matches(record: Mapping[str, Any]) -> bool:
        provenance = record["provenance"]
        return all(fnmatchcase(str(provenance.get(k, "")), str(p)) for k, p in patterns.items())

    def mask(table: EpisodeTable) -> Mask:
        if not patterns:
            return np.ones(len(table), bool)
        selected = np.array([matches(record) for record in dataset.describe()], bool)
        return np.isin(table.episode, dataset.episodes.episode[selected])

    return mask


def all_of(*selections: Selection) -> Selection:
    """Select the episodes that all of the selections are true for.

    Example:
        >>> from wmtk.datasets import all_of, filter_episodes, select
        >>> selection = all_of(select(min_return=-1.0), select(ended="terminated"))
        >>> filter_episodes("catch.zarr", "ended.zarr", selection).episodes
        4
    """

    def mask(table: EpisodeTable) -> Mask:
        keep = np.ones(len(table), bool)
        for selection in selections:
            keep &= selection(table)
        return keep

    return mask


# --- writing ----------------------------------------------------------------------------------


@contextlib.contextmanager
def staged(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path beside `target`, which is renamed to `target` at the end.

    With `overwrite` an existing dataset is replaced at that moment; an error leaves it unchanged.
    """
    exists = os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir()))
    if exists and not overwrite:
        raise DatasetError(f"{target} exists already.", "Choose another path.", target)
    if exists:
        read_header(target)  # raises unless it is a dataset: other files are never replaced
    with atomic.staged(target, replacing=exists) as path:
        yield path


def write_new(
    selected: Sequence[tuple[Dataset, EpisodeTable]],
    target: Path,
    schema: Schema,
    how: str,
    overwrite: bool,
    progress: Progress | None,
    *,
    change: Callable[[Episode], Episode] = lambda episode: episode,
    env: Mapping[str, Any] | None = None,
) -> TransformReport:
    """Write episodes as a new dataset, with `change` applied; `env` describes their task."""
    total = sum(len(table) for _, table in selected)
    available = sum(len(dataset) for dataset, _ in selected)
    headers = [dataset.header for dataset, _ in selected]
    attributes = {
        **_common([header["attributes"] for header in headers]),
        "made_by": how,
        "sources": [_source(dataset, table) for dataset, table in selected],
    }
    with staged(target, overwrite=overwrite) as path:
        task = _common([header["env"] for header in headers]) if env is None else env
        with Dataset.create(path, schema, env=task, attributes=attributes) as new:
            episodes = (change(e) for dataset, table in selected for e in _read(dataset, table))
            done = 0
            for batch in _batches(episodes, schema):
                new.append(batch, bounds=False)
                done += len(batch)
                if progress:
                    progress(done, total)
            steps = new.num_steps
    return TransformReport(target, total, steps, available - total)


def _source(dataset: Dataset, table: EpisodeTable) -> dict[str, Any]:
    earlier = dataset.header["attributes"].get("sources")
    return {
        "id": dataset.id,
        "name": dataset.path.name,
        "version": dataset.version,
        "episodes": len(table),
        "steps": table.steps,
        **({"sources": earlier} if earlier else {}),
    }


def _read(dataset: Dataset, table: EpisodeTable) -> Iterator[Episode]:
    """The episodes of a table, decoding one part at a time."""
    for index in np.unique(table.part):
        entry = table.parts[index]
        numbers = table.number[table.part == index]
        with dataset.reading(entry):
            reader = dataset.open_part(entry)
            whole = len(numbers) == len(entry.ids) and _fits(entry.rows, dataset.schema)
            yield from reader.episodes() if whole else (reader.episode(int(n)) for n in numbers)


def _fits(rows: int, schema: Schema) -> bool:
    return rows * schema.row_bytes <= MAX_BATCH_BYTES


def _batches(episodes: Iterable[Episode], schema: Schema) -> Iterator[list[Episode]]:
    """Group episodes into batches that become one large part each."""
    batch: list[Episode] = []
    steps = 0
    for episode in episodes:
        batch.append(episode)
        steps += episode.length
        if steps >= TARGET_STEPS or not _fits(steps, schema):
            yield batch
            batch, steps = [], 0
    if batch:
        yield batch


def open_source(source: PathOrDataset, stack: contextlib.ExitStack) -> Dataset:
    if isinstance(source, Dataset):
        return source
    return stack.enter_context(Dataset.open(source))


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    if progress is None:
        return None
    report: Callable[[int, int], None] = progress
    return lambda done, _: report(before + done, total)


def _common(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields that are equal in all documents."""
    first, *others = documents
    return {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }


# --- schemas ----------------------------------------------------------------------------------


def _joint_schema(one: Schema, other: Schema, what: str) -> Schema:
    """A schema for the episodes of both."""
    one.require_same_arrays(other, what)
    other_specs = dict(other.arrays())

    def wider(path: str, spec: ArraySpec) -> ArraySpec:
        if spec.kind != other_specs[path].kind:
            raise SchemaMismatchError(
                f"{what} differ in their arrays:\n  {path}: {spec} against {other_specs[path]}",
                "Only datasets with equal kinds of spaces can be joined.",
            )
        low = _wider(spec.low, other_specs[path].low, min)
        return replace(spec, low=low, high=_wider(spec.high, other_specs[path].high, max))

    return replace(
        one,
        obs={key: wider(f"obs/{key}", spec) for key, spec in one.obs.items()},
        action=wider("action", one.action),
        reward=wider("reward", one.reward),
        info={key: wider(f"info/{key}", spec) for key, spec in one.info.items()},
    )


def _wider(one: Bound, other: Bound, pick: Callable[[Any, Any], Any]) -> Bound:
    """The wider of two bounds; None is unbounded."""
    if one == other:
        return one
    if one is None or other is None:
        return None
    if not isinstance(one, tuple) and not isinstance(other, tuple):
        wider: Bound = pick(one, other)
        return wider
    size = len(one) if isinstance(one, tuple) else len(other) if isinstance(other, tuple) else 0
    ones = one if isinstance(one, tuple) else (one,) * size
    others = other if isinstance(other, tuple) else (other,) * size
    pairs = zip(ones, others, strict=True)
    return tuple(None if a is None or b is None else pick(a, b) for a, b in pairs)
