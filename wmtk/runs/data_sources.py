"""The record of a run's data in run.json, and its check when the run is resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wmtk.datasets import Dataset, Source
from wmtk.datasets.schema_match import require_fit
from wmtk.datasets.storage import atomic
from wmtk.errors import DatasetError, RunError
from wmtk.runs.model_spaces import spaces_of
from wmtk.runs.run_directory import Run


def identity(source: Source) -> dict[str, Any]:
    """The record of a source: dataset, version, weight, and a hash of its selected episodes."""
    table = source.table()
    return {
        "path": atomic.portable_path(source.dataset.path),
        "id": source.dataset.id,
        "version": source.dataset.version,
        "weight": source.weight,
        "episodes": len(table),
        "steps": table.steps,
        "selection": hashlib.sha256(table.id.tobytes()).hexdigest()[:16],
    }


def restore_sources(run: Run, sources: Sequence[Source]) -> list[Source]:
    """The sources at the versions that a run was started with; raises RunError for other data."""
    schema, _ = spaces_of(run)
    for source in sources:
        names = f"The model of {run.path} and {source.dataset.path}"
        require_fit(schema, source.dataset.schema, names)
    recorded: Sequence[Mapping[str, Any]] = run.about["data"]
    if [item["id"] for item in recorded] != [source.dataset.id for source in sources]:
        raise _other_data(run, "datasets", recorded, sources)
    opened = [
        _at_version(source, item["version"]) for source, item in zip(sources, recorded, strict=True)
    ]
    for source, item in zip(opened, recorded, strict=True):
        current = identity(source)
        for name in ("version", "weight", "selection"):
            if current[name] != item[name]:
                raise _other_data(run, f"{name}s", recorded, opened)
    return opened


def pin_version(source: Source) -> Source:
    """The source with its dataset opened at its present version."""
    dataset = source.dataset
    return replace(source, dataset=Dataset.open(dataset.path, version=dataset.version))


def _at_version(source: Source, version: int) -> Source:
    """The source with its dataset opened at an earlier version."""
    if source.dataset.version == version:
        return source
    try:
        return replace(source, dataset=Dataset.open(source.dataset.path, version=version))
    except DatasetError as error:
        raise RunError(
            f"{source.dataset.path} no longer has version {version}, which the run uses.",
            "Start a new run. Tagged versions are not deleted: wmtk data tag.",
        ) from error


def _other_data(
    run: Run, what: str, recorded: Sequence[Mapping[str, Any]], sources: Sequence[Source]
) -> RunError:
    def lines(items: Sequence[Mapping[str, Any]]) -> str:
        return "\n".join(
            f"  {item['path']}: version {item['version']}, weight {item['weight']:g}, "
            f"{item['episodes']} episodes, id {item['id'][:8]}"
            for item in items
        )

    return RunError(
        f"{run.path} was trained on other data (their {what} differ):\n{lines(recorded)}\n"
        f"instead of\n{lines([identity(source) for source in sources])}",
        "Resume with the same datasets, weights and selection, or start a new run.",
    )
