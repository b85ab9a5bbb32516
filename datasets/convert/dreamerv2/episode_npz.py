"""Import and export replay folders of DreamerV2: one npz file per episode, aligned as in wmtk."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wmtk.datasets.convert.alignment import (
    INFERRED_ACTIONS,
    Rows,
    exactly,
    infer_action,
    same_values,
)
from wmtk.datasets.convert.dreamerv2.npz import NpyHeader, open_npz
from wmtk.datasets.convert.formats import Episodes, ImportSource, Losses
from wmtk.datasets.convert.sidecar import KEY, EpisodeRecords, Sidecar
from wmtk.datasets.convert.untrusted import MAX_FILES, read_json
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, UsageError
from wmtk.spaces import ArraySpec

ALIGNMENT = (
    "T+1 rows: row t holds o_t, the action that led to it (one-hot if discrete) and the reward "
    "on arriving, with is_first, is_last and is_terminal."
)
SIDECAR = f"{KEY}.json"
FLAGS = ("is_first", "is_last", "is_terminal", "reset")
RESERVED = {"action", "reward", "discount", *FLAGS}
INFO = "info/"
Actions = Literal["auto", "one-hot", "float"]


def files(path: Path) -> list[Path]:
    """The episode files sorted by name, which begins with the time."""
    names = sorted(name for name in os.listdir(path) if name.endswith(".npz"))
    if len(names) > MAX_FILES:
        raise ConversionError(
            f"{path} has {len(names):,} files; at most {MAX_FILES:,} are supported.", "", path
        )
    return [path / name for name in names]


def recognizes(path: Path) -> bool:
    if not path.is_dir() or not (names := files(path)):
        return False
    with open_npz(names[0]) as npz:
        return {"action", "reward"} <= set(npz.keys)


@dataclass
class FolderScan:
    """The headers of all files, and whether all actions are one-hot."""

    headers: dict[str, NpyHeader] = field(default_factory=dict)  # of the first file
    files: list[Path] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    one_hot: bool = True
    low: int = 0
    high: int = 0


@contextlib.contextmanager
def read(path: Path, *, actions: Actions = "auto") -> Iterator[ImportSource]:
    """`actions`: convert one-hot floats to integers if all are one-hot ("auto"), or require or
    prevent the conversion ("one-hot", "float").
    """
    if actions not in ("auto", "one-hot", "float"):
        raise UsageError(f"actions={actions!r} is unknown.", "Use 'auto', 'one-hot' or 'float'.")
    losses = Losses()
    scan = _scan(path, losses)
    if actions == "one-hot" and not scan.one_hot:
        raise ConversionError(
            f"The actions in {path} are not all one-hot.", "Import with actions='float'.", path
        )
    schema = _schema(scan, scan.one_hot and actions != "float")
    env: dict[str, Any] = {}
    attributes: dict[str, Any] = {"source": {"format": "dreamer-npz", "alignment": ALIGNMENT}}
    records = None
    metadata = read_json(path / SIDECAR) if (path / SIDECAR).exists() else None
    sidecar = Sidecar.matching(metadata, path / SIDECAR, losses, scan.lengths, schema)
    if sidecar is not None:
        schema, env, attributes = sidecar.schema, sidecar.env, sidecar.attributes
        records = sidecar.episodes
        if actions == "float":
            schema = replace(schema, action=_box(scan.headers["action"]))
    elif scan.headers["action"].dtype.kind in "iu":
        losses.note(INFERRED_ACTIONS)
    episodes = _episodes(scan, schema, records, losses)
    yield ImportSource(schema, len(scan.files), episodes, losses, env, attributes)


def _scan(path: Path, losses: Losses) -> FolderScan:
    scan = FolderScan()
    for file in files(path):
        with open_npz(file) as npz:
            headers = {key: npz.header(key) for key in npz.keys}
            rows = headers["reward"].shape[0] if "reward" in headers else 0
            first = scan.headers or headers
            same_keys = headers.keys() == first.keys() and "action" in headers
            if not same_keys or any(h.shape[:1] != (rows,) for h in headers.values()):
                raise ConversionError(
                    f"{file} does not have the arrays of the other episodes, or not one row per "
                    "step in each.",
                    "Every file needs action, reward and the same keys.",
                    file,
                )
            scan.headers = first
            if rows < 2:
                losses.note("{n} files hold no step: not imported.")
                continue
            scan.files.append(file)
            scan.lengths.append(rows - 1)
            _scan_actions(scan, npz.read("action")[1:])
    if not scan.files:
        raise ConversionError(f"{path} has no episode.", "Every file has one row.", path)
    return scan


def _scan_actions(scan: FolderScan, rows: Rows) -> None:
    if rows.dtype.kind in "iu":
        scan.low = min(scan.low, int(rows.min()))
        scan.high = max(scan.high, int(rows.max()))
    binary = rows.dtype.kind == "f" and rows.ndim == 2 and rows.shape[1] > 1
    scan.one_hot &= bool(
        binary and np.isin(rows, (0, 1)).all() and (np.count_nonzero(rows, axis=1) == 1).all()
    )


def _box(header: NpyHeader) -> ArraySpec:
    return ArraySpec("box", header.shape[1:], header.dtype.name)


def _schema(scan: FolderScan, one_hot: bool) -> Schema:
    action = scan.headers["action"]
    others = {key: _box(h) for key, h in scan.headers.items() if key not in RESERVED}
    if one_hot:
        spec = ArraySpec("discrete", (), "int64", 0, action.shape[1] - 1)
    else:
        spec = infer_action(action.shape, action.dtype.name, scan.low, scan.high)
    wide = scan.headers["reward"].dtype.name == "float64"
    return Schema(
        obs={key: spec for key, spec in others.items() if not key.startswith(INFO)},
        action=spec,
        reward=ArraySpec("box", (), "float64" if wide else "float32"),
        info={k.removeprefix(INFO): spec for k, spec in others.items() if k.startswith(INFO)},
    )


def _episodes(
    scan: FolderScan, schema: Schema, records: EpisodeRecords | None, losses: Losses
) -> Iterator[Episode]:
    for number, file in enumerate(scan.files):
        with open_npz(file) as npz:
            arrays = {key: npz.read(key) for key in npz.keys}
        ends = _ending(arrays, file, losses) if records is None else records.ends[number]
        action = arrays["action"]
        if schema.action.kind == "discrete" and action.ndim == 2:
            action = np.argmax(action, axis=1) + schema.action.bound("low")
        action, reward = action.copy(), arrays["reward"].reshape(-1).copy()
        losses.note(_ROW_0, int(arrays["action"][0].any() or reward[0] != 0))
        action[0], reward[0] = 0, 0
        yield Episode(
            obs={k: exactly(arrays[k], s.dtype, k, file) for k, s in schema.obs.items()},
            action=exactly(action, schema.action.dtype, "action", file),
            reward=exactly(reward, schema.reward.dtype, "reward", file),
            terminated=bool(ends & 1),
            truncated=bool(ends & 2),
            info={k: exactly(arrays[INFO + k], s.dtype, k, file) for k, s in schema.info.items()},
            seed=None if records is None else records.seeds[number],
            provenance=Provenance() if records is None else records.provenance(number),
        )


_ROW_0 = "In {n} episodes row 0 had an action or a reward, before the first step: zeroed."


def _ending(arrays: dict[str, Rows], file: Path, losses: Losses) -> int:
    """1 terminated, 2 truncated, 0 neither; flags inside of the episode are refused."""
    flags = {name: arrays[name].reshape(-1) != 0 for name in FLAGS if name in arrays}
    discount = arrays.get("discount")
    if "is_terminal" not in flags and discount is not None:
        flags["is_terminal"] = discount.reshape(-1) == 0
        flags["is_terminal"][0] = False  # some versions start with a discount of 0
    elif discount is not None:
        differs = (discount.reshape(-1) != 1 - flags["is_terminal"]).any()
        losses.note("In {n} episodes discount is not 1 − is_terminal: left out.", int(differs))
    for name, values in flags.items():
        inside = values[1:] if name in ("is_first", "reset") else values[:-1]
        if inside.any():
            raise ConversionError(
                f"{file} has {name} set inside the episode.",
                "Every file must hold exactly one episode.",
                file,
            )
    if "is_last" not in flags and "is_terminal" not in flags:
        losses.note(
            "{n} episodes have no flag of their end: imported as neither terminated nor truncated."
        )
    terminal = "is_terminal" in flags and bool(flags["is_terminal"][-1])
    last = "is_last" in flags and bool(flags["is_last"][-1])
    return 1 if terminal else 2 * last


# --- export ---


def write(
    dataset: Dataset,
    target: Path,
    episodes: Episodes,
    losses: Losses,
    *,
    keep_dtypes: bool = False,
) -> None:
    """The reference reads float32, int32, uint8 and bool; `keep_dtypes` keeps other dtypes."""
    if reserved := sorted(RESERVED & dataset.schema.obs.keys()):
        raise ConversionError(
            f"The observation keys {reserved} have another meaning in this format.",
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
    """`{time}-{uuid}-{T}.npz`, deterministic and sorted in the order of the episodes."""
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
    """Cast to the dtype of the reference's replay."""
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
