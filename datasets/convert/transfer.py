"""Run imports and exports of whole datasets; a failure leaves no partial result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wmtk.datasets.convert import hdf5
from wmtk.datasets.convert.formats import (
    ExportReport,
    Format,
    ImportReport,
    ImportSource,
    Losses,
    Progress,
)
from wmtk.datasets.convert.unknown_hdf5 import unknown_hdf5
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode
from wmtk.datasets.storage import atomic
from wmtk.errors import ConversionError, EpisodeError, SpaceError, UsageError

BATCH_STEPS = 8192  # the size of a compacted part
BATCH_BYTES = 256 * 2**20


def run_import(
    format: Format, source: Path, target: Path, progress: Progress | None, options: dict[str, Any]
) -> ImportReport:
    """Import `source` into a new dataset at `target`."""
    _check_options(format, format.import_options, options)
    if not format.recognizes(source):
        if hdf5.is_hdf5(source):
            raise unknown_hdf5(source, f"  {format.name}: {format.description}")
        raise ConversionError(
            f"{source} is not of the format {format.name}.",
            f"Expected: {format.description}.",
            source,
        )
    _require_free(target)
    with atomic.staged(target) as staging:
        try:
            with format.read(source, **options) as opened:
                with Dataset.create(
                    staging, opened.schema, env=opened.env, attributes=opened.attributes
                ) as dataset:
                    _append_all(dataset, opened, source, progress)
                    episodes, steps = dataset.num_episodes, dataset.num_steps
                losses = opened.losses.sentences()
        except SpaceError as error:
            raise ConversionError(
                f"{source} cannot be imported: {error.message}", error.hint, source
            ) from error
        if not episodes:
            raise ConversionError(
                f"{source} has no episode with a step.", "Check the path.", source
            )
    return ImportReport(format.name, target, episodes, steps, losses)


def _append_all(
    dataset: Dataset, source: ImportSource, path: Path, progress: Progress | None
) -> None:
    batch: list[Episode] = []
    steps = 0
    most = max(1, min(BATCH_STEPS, BATCH_BYTES // dataset.schema.row_bytes))
    for number, episode in enumerate(source.episodes):
        try:
            episode.check_form(dataset.schema)
        except EpisodeError as error:
            raise ConversionError(
                f"Episode {number} of {path}: {error.message}", error.hint, path
            ) from error
        for breach in episode.breaches(dataset.schema):
            source.losses.note(
                f"In {{n}} episodes {breach.key} exceeds the bounds that the source declares: "
                "stored unchanged."
            )
        batch.append(episode)
        steps += episode.length
        if steps >= most:
            dataset.append(batch, bounds=False)
            batch, steps = [], 0
        if progress is not None:
            progress(number + 1, source.total)
    if batch:
        dataset.append(batch, bounds=False)


def run_export(
    format: Format,
    dataset: Dataset,
    target: Path,
    progress: Progress | None,
    options: dict[str, Any],
) -> ExportReport:
    """Write all episodes of the snapshot to the new file or folder `target`."""
    _check_options(format, format.export_options, options)
    if not dataset.num_episodes:
        raise ConversionError(
            f"{dataset.path} has no episode to export.", "Collect episodes first.", dataset.path
        )
    losses = Losses()
    _require_free(target)
    with atomic.staged(target) as staging, atomic.translate_os_errors(target):
        format.write(dataset, staging, _counted(dataset, progress), losses, **options)
        atomic.sync_tree(staging.parent)
    steps = dataset.num_steps
    return ExportReport(format.name, target, dataset.num_episodes, steps, losses.sentences())


def _counted(dataset: Dataset, progress: Progress | None) -> Iterator[Episode]:
    """The episodes in order, read part by part if a part fits in memory, else one by one."""
    done = 0
    for entry in dataset.parts:
        with dataset.reading(entry):
            reader = dataset.open_part(entry)
            small = entry.rows * dataset.schema.row_bytes <= BATCH_BYTES
            numbers = range(len(entry.ids))
            for episode in reader.episodes() if small else map(reader.episode, numbers):
                yield episode
                done += 1
                if progress is not None:
                    progress(done, dataset.num_episodes)


def _require_free(target: Path) -> None:
    if os.path.lexists(target):
        raise ConversionError(
            f"{target} exists already.", "Choose another path, or remove it first.", target
        )


def _check_options(format: Format, known: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    if unknown := sorted(options.keys() - known.keys()):
        raise UsageError(
            f"{format.name} has no option {', '.join(map(repr, unknown))}.",
            f"Options: {', '.join(known) or 'none'}.",
        )
