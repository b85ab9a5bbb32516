"""Import and export datasets of other libraries, whose row alignments differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from wmtk.datasets.convert import (
    d4rl,
    diffusion_policy,
    dreamerv2,
    hdf5,
    minari,
    transfer,
)
from wmtk.datasets.convert.formats import ExportReport, Format, ImportReport, Progress
from wmtk.datasets.convert.unknown_hdf5 import unknown_hdf5
from wmtk.datasets.dataset import Dataset
from wmtk.errors import ConversionError, UsageError

_ALL = (
    Format(
        name="minari",
        description="Minari 0.5 datasets (HDF5): <id>/data/main_data.hdf5 and metadata.json",
        alignment=minari.ALIGNMENT,
        cannot_hold="Options of the task beyond gymnasium's EnvSpec, such as wmtk's wrappers.",
        recognizes=minari.recognizes,
        read=minari.read,
        write=minari.write,
        locate=minari.locate,
    ),
    Format(
        name="d4rl",
        description="D4RL-style HDF5 files: flat observations, actions, rewards, terminals",
        alignment=d4rl.ALIGNMENT,
        cannot_hold="Final observations without next_observations; episodes without an end; "
        "several observation keys in one array.",
        recognizes=d4rl.recognizes,
        read=d4rl.read,
        write=d4rl.write,
    ),
    Format(
        name="dreamer-npz",
        description="DreamerV2 replay folders: one {time}-{uuid}-{T}.npz per episode",
        alignment=dreamerv2.ALIGNMENT,
        cannot_hold="Floats beyond float32 and integers beyond int32; episodes that are both "
        "terminated and truncated.",
        recognizes=dreamerv2.recognizes,
        read=dreamerv2.read,
        write=dreamerv2.write,
    ),
    Format(
        name="diffusion-zarr",
        description="Diffusion Policy replay buffers: zarr v2 with data/ and meta/episode_ends",
        alignment=diffusion_policy.ALIGNMENT,
        cannot_hold="Final observations, ends of episodes, infos; rewards only as an extra key.",
        recognizes=diffusion_policy.recognizes,
        read=diffusion_policy.read,
        write=diffusion_policy.write,
    ),
)
FORMATS: Mapping[str, Format] = MappingProxyType({format.name: format for format in _ALL})


def _lines() -> str:
    return "\n".join(f"  {format.name}: {format.description}" for format in _ALL)


def _find(name: str) -> Format:
    if name not in FORMATS:
        raise UsageError(f"There is no format {name!r}.", f"The formats are:\n{_lines()}")
    return FORMATS[name]


def _located(source: str | os.PathLike[str], format: Format | None) -> Path:
    """The path of `source`: a path, or the location of a dataset id of a format."""
    path = Path(source)
    if not os.path.lexists(path):
        for candidate in _ALL if format is None else (format,):
            located = candidate.locate(os.fspath(source))
            if located.exists():
                return located.resolve()
        raise ConversionError(f"{path} does not exist.", "Check the path.", path)
    try:
        # A link given by the user is followed, links inside of its target are not.
        return path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise ConversionError(
            f"{path} cannot be resolved ({error}).", "Check the path.", path
        ) from error


def detect_format(path: str | os.PathLike[str]) -> str:
    """The name of the format of a file or folder."""
    source = _located(path, None)
    if (source / "zarr.json").is_file():
        raise ConversionError(
            f"{source} is a zarr v3 store, such as wmtk's own datasets.",
            "A wmtk dataset needs no import: open it, or merge it into another one.",
            source,
        )
    for format in _ALL:
        if format.recognizes(source):
            return format.name
    if hdf5.is_hdf5(source):
        raise unknown_hdf5(source, _lines())
    raise ConversionError(
        f"{source} has none of the supported formats.",
        f"The formats are:\n{_lines()}",
        source,
    )


def import_dataset(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ImportReport:
    """Import a dataset of another format as a new dataset at `target`.

    A failure leaves nothing at `target`. `options` are those of the format.
    """
    chosen = None if format is None else _find(format)
    path = _located(source, chosen)
    if chosen is None:
        chosen = FORMATS[detect_format(path)]
    return transfer.run_import(chosen, path, Path(target), progress, options)


def export_dataset(
    dataset: Dataset | str | os.PathLike[str],
    target: str | os.PathLike[str],
    format: str,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> ExportReport:
    """Export a dataset to `target` in another format; `target` must not exist."""
    chosen = _find(format)
    if isinstance(dataset, Dataset):
        return transfer.run_export(chosen, dataset, Path(target), progress, options)
    with Dataset.open(dataset) as opened:
        return transfer.run_export(chosen, opened, Path(target), progress, options)


__all__ = [
    "FORMATS",
    "ExportReport",
    "Format",
    "ImportReport",
    "Progress",
    "detect_format",
    "export_dataset",
    "import_dataset",
]
