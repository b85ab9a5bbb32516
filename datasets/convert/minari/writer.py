"""Export Minari 0.5 HDF5, losslessly (never as JPEG)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from wmtk.datasets.convert import hdf5
from wmtk.datasets.convert.alignment import Rows, departing
from wmtk.datasets.convert.formats import Episodes, Losses
from wmtk.datasets.convert.minari.space_json import (
    DATASET_ID,
    EPISODE_KEY,
    MAIN_FILE,
    METADATA,
    STORAGE_KEYS,
    array_paths,
    load_minari,
    nested,
)
from wmtk.datasets.convert.sidecar import KEY, Sidecar
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, UsageError
from wmtk.spaces import Structure, unflatten_space


def write(
    dataset: Dataset,
    target: Path,
    episodes: Episodes,
    losses: Losses,
    *,
    dataset_id: str | None = None,
    compression: str | None = "gzip",
) -> None:
    """Minari finds `target` by its id at <MINARI_DATASETS_PATH>/<dataset_id>."""
    compression = hdf5.check_compression(compression)
    original = dataset.header["attributes"].get("minari", {})
    name = _dataset_id(target, dataset_id, original)
    spaces = _spaces(dataset.schema)
    paths = array_paths(_structure(dataset.schema))
    folder = target / "data"
    folder.mkdir(parents=True)
    with hdf5.create_hdf5(folder / MAIN_FILE) as file:
        for number, episode in enumerate(episodes):
            group = file.create_group(f"episode_{number}", track_order=True)
            for path, rows in _columns(episode, paths).items():
                node = hdf5.create(group, path, rows.shape, rows.dtype, compression)
                node[...] = rows
            _write_attributes(group, number, episode, losses)
    metadata = {
        **{key: value for key, value in original.items() if key not in STORAGE_KEYS},
        **spaces,
        "dataset_id": name,
        "minari_version": load_minari().__version__,
        "total_episodes": dataset.num_episodes,
        "total_steps": dataset.num_steps,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "dataset_size": round((folder / MAIN_FILE).stat().st_size / 1e6, 1),
        KEY: Sidecar.of(dataset).to_json(),
    }
    (folder / METADATA).write_text(json.dumps(metadata), "utf-8")
    _note_losses(dataset.schema, "env_spec" in metadata, losses)


def _structure(schema: Schema) -> Structure:
    assert schema.structure is not None, schema
    return nested(schema.structure)


def _spaces(schema: Schema) -> dict[str, str]:
    serialize = load_minari().serialization.serialize_space
    return {
        "observation_space": serialize(unflatten_space(_structure(schema), schema.obs)),
        "action_space": serialize(schema.action.to_gymnasium()),
    }


def _note_losses(schema: Schema, env_spec: bool, losses: Losses) -> None:
    for what, spec in {**schema.obs, "action": schema.action}.items():
        if spec.kind == "discrete" and spec.dtype != "int64":
            losses.note(
                f"Minari's Discrete spaces are int64: that of {what} does not declare "
                f"{spec.dtype}, which its values keep."
            )
    if not env_spec:
        losses.note(
            "No env_spec was written, as it could not describe the task's wrappers: "
            "recover_environment() does not work; the task is in the metadata under 'wmtk'."
        )


def _dataset_id(target: Path, given: str | None, original: dict[str, Any]) -> str:
    """The given id, the original id if it matches the folder, or the name of the folder."""
    if given is not None:
        if not DATASET_ID.fullmatch(given):
            raise UsageError(
                f"{given!r} is not a Minari dataset id.",
                "Use namespace/name-vN, such as atari/pong-v0 (letters, digits, '_' and '-').",
            )
        return given
    before = str(original.get("dataset_id", ""))
    if DATASET_ID.fullmatch(before) and before.split("/")[-1] == target.name:
        return before
    for name in (target.name, f"{target.name}-v0"):
        if DATASET_ID.fullmatch(name):
            return name
    raise ConversionError(
        f"{target.name!r} is not a valid name of a Minari dataset.",
        "Give dataset_id, such as atari/pong-v0, or name the folder like pong-v0.",
        target,
    )


def _columns(episode: Episode, paths: dict[str, str]) -> dict[str, Rows]:
    """The arrays of an episode group."""
    last = np.arange(1, episode.length + 1) == episode.length
    return {
        **{path: episode.obs[key] for key, path in paths.items()},
        "actions": departing(episode.action),
        "rewards": departing(episode.reward),
        "terminations": last & episode.terminated,
        "truncations": last & episode.truncated,
        **{f"infos/{key}": rows for key, rows in episode.info.items()},
    }


def _write_attributes(group: Any, number: int, episode: Episode, losses: Losses) -> None:
    record = {"seed": episode.seed, "provenance": episode.provenance.to_json()}
    group.attrs["id"] = number
    group.attrs["total_steps"] = episode.length
    group.attrs[EPISODE_KEY] = json.dumps(record)
    attributes = dict(episode.provenance.extra.get("minari", {}))
    if episode.seed is not None and 0 <= episode.seed < 2**64:
        attributes["seed"] = episode.seed
    for key, value in attributes.items():
        try:
            group.attrs[key] = value
        except (TypeError, ValueError):
            losses.note(f"The episode attribute {key!r} could not be written back as HDF5.")
