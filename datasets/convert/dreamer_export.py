"""Episodes → DreamerV2's replay folders, with the dtypes that the reference reads."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import numpy as np

from wmtk.datasets.convert.alignment import Rows, same_values
from wmtk.datasets.convert.dreamer_npz import INFO, RESERVED, SIDECAR
from wmtk.datasets.convert.format import Episodes, Losses
from wmtk.datasets.convert.sidecar import EpisodeRecords, Sidecar
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError


def write(
    dataset: Dataset,
    target: Path,
    episodes: Episodes,
    losses: Losses,
    *,
    keep_dtypes: bool = False,
) -> None:
    """The reference reads float32, int32, uint8 and bool; `keep_dtypes` writes what there is."""
    if taken := sorted(RESERVED & dataset.schema.obs.keys()):
        raise ConversionError(
            f"The observation keys {taken} have another meaning in this format.",
            "Rename them before the export.",
            dataset.path,
        )
    target.mkdir()
    records = EpisodeRecords()
    for number, episode in enumerate(episodes):
        arrays = _arrays(dataset.schema, episode)
        if not keep_dtypes:
            arrays = {key: _reference_dtype(key, rows, losses) for key, rows in arrays.items()}
        np.savez_compressed(target / _file_name(number, episode), **arrays)  # type: ignore[arg-type]
        if episode.terminated and episode.truncated:
            losses.note(
                "{n} episodes are both terminated and truncated: only is_terminal is set; "
                f"{SIDECAR} keeps both."
            )
        records.add(episode)
    document = json.dumps(Sidecar.of(dataset, records).to_json())
    (target / SIDECAR).write_text(document, "utf-8")


def _file_name(number: int, episode: Episode) -> str:
    """`{time}-{uuid}-{T}.npz`, the same for the same dataset, in the order of the episodes."""
    time = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=number)
    name = f"{time:%Y%m%dT%H%M%S}-{number:016x}{episode.id}-{episode.length}.npz"
    assert re.fullmatch(r"[0-9T]{15}-[0-9a-f]{32}-[0-9]+\.npz", name), name
    return name


def _arrays(schema: Schema, episode: Episode) -> dict[str, Rows]:
    rows = np.arange(episode.length + 1)
    action = episode.action
    if schema.action.kind == "discrete":
        choice = action.astype(np.int64) - int(schema.action.bound("low"))
        action = (choice[:, None] == np.arange(schema.action.n)).astype(np.float32)
        action[0] = 0
    last = rows == episode.length
    return {
        **episode.obs,
        **{f"{INFO}{key}": values for key, values in episode.info.items()},
        "action": action,
        "reward": episode.reward,
        "is_first": rows == 0,
        "is_last": last & (episode.terminated or episode.truncated),
        "is_terminal": last & episode.terminated,
    }


def _reference_dtype(key: str, rows: Rows, losses: Losses) -> Rows:
    """The dtype that the reference's replay has for such values."""
    if key == "action" or rows.dtype.kind == "f":
        cast = rows.astype(np.float32)
    elif rows.dtype.kind == "b" or rows.dtype == np.uint8:
        return rows
    else:
        cast = rows.astype(np.int32)
    if not same_values(cast, rows):
        losses.note(
            f"{key}: {rows.dtype.name} values were rounded to {cast.dtype.name} in {{n}} episodes, "
            "as the reference reads nothing wider (keep_dtypes=True keeps them)."
        )
    return cast
