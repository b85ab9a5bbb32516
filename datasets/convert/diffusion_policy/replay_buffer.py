"""Import and export replay buffers of Diffusion Policy: zarr v2, flat rows, cumulative ends."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr

from wmtk.datasets.convert.alignment import (
    INFERRED_ACTIONS,
    FinalObservation,
    FlatEpisode,
    assemble,
    check_final_option,
    departing,
    infer_action,
)
from wmtk.datasets.convert.diffusion_policy.hierarchy import (
    FolderHierarchy,
    Hierarchy,
    ZipHierarchy,
)
from wmtk.datasets.convert.diffusion_policy.zarr_v2 import ArrayReader, ArrayWriter
from wmtk.datasets.convert.formats import Episodes, ImportSource, Losses
from wmtk.datasets.convert.origin import named_in
from wmtk.datasets.convert.sidecar import KEY, EpisodeRecords, Sidecar
from wmtk.datasets.convert.untrusted import MAX_FILES, MAX_JSON_BYTES, open_zip, parse_json, plain
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, UsageError
from wmtk.spaces import ArraySpec

ALIGNMENT = (
    "T flat rows per episode under data/: row t holds o_t and the action taken at it; "
    "meta/episode_ends holds the row after the last of each episode."
)
LANDMARK = "meta/episode_ends/.zarray"
REWARDS = ("reward", "rewards")
End = Literal["cut", "terminated", "truncated"]
Spans = list[tuple[int, int]]


def recognizes(path: Path) -> bool:
    if path.is_dir():
        return (path / LANDMARK).is_file()
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with open_zip(path, MAX_FILES) as archive:
        return any(f"/{name}".endswith(f"/{LANDMARK}") for name in archive.namelist())


@contextlib.contextmanager
def read(
    path: Path,
    *,
    final_observation: FinalObservation = "repeat",
    action_key: str = "action",
    end: End = "cut",
) -> Iterator[ImportSource]:
    """`end` is the ending of all episodes, which the format does not store."""
    check_final_option(final_observation)
    if end not in ("cut", "terminated", "truncated"):
        raise UsageError(f"end={end!r} is unknown.", "Use 'cut', 'terminated' or 'truncated'.")
    with _open_store(path) as store:
        losses = Losses()
        arrays = _arrays(store, losses)
        spans = _spans(store, arrays, losses)
        schema = _schema(arrays, action_key, spans, path)
        attributes = parse_json(store.read(".zattrs", MAX_JSON_BYTES) or b"{}", path / ".zattrs")
        sidecar = Sidecar.matching(
            attributes.pop(KEY, None), path, losses, [b - a for a, b in spans], schema, flat_key
        )
        env: Mapping[str, Any] = {}
        records = None
        if sidecar is not None:
            schema, env, records = sidecar.schema, sidecar.env, sidecar.episodes
            attributes = sidecar.attributes
        else:
            source = {"format": "diffusion-zarr", "alignment": ALIGNMENT}
            env = named_in(plain(attributes), schema)
            attributes = {"source": source, "diffusion-zarr": plain(attributes)}
            if schema.action.kind == "discrete":
                losses.note(INFERRED_ACTIONS)
            if end == "cut":
                losses.note(
                    "The source has no ends of episodes: none is marked as terminated or truncated."
                )
        reader = _Reader(arrays, schema, action_key, losses, path)
        episodes = reader.episodes(spans, records, end, final_observation)
        yield ImportSource(schema, len(spans), episodes, losses, env, attributes)


@contextlib.contextmanager
def _open_store(path: Path) -> Iterator[Hierarchy]:
    if path.is_dir():
        yield FolderHierarchy(path)
        return
    with open_zip(path, MAX_FILES) as archive:
        yield ZipHierarchy(path, archive, LANDMARK)


def flat_key(key: str) -> str:
    """The name of a nested key in the format: 'robot/pose' is written as 'robot.pose'."""
    return key.replace("/", ".")


def _arrays(store: Hierarchy, losses: Losses) -> dict[str, ArrayReader]:
    arrays = {}
    for name in store.names("data"):
        if name.startswith("."):
            continue
        if store.read(f"data/{name}/.zarray", MAX_JSON_BYTES) is None:
            losses.note(f"data/{name} is not an array: not imported.")
        else:
            arrays[name] = ArrayReader(store, f"data/{name}")
    return arrays


def _spans(store: Hierarchy, arrays: Mapping[str, ArrayReader], losses: Losses) -> Spans:
    """The [start, stop) rows of each episode with a step."""
    node = ArrayReader(store, "meta/episode_ends")
    ends = node.rows(0, node.shape[0]) if node.shape[0] else np.zeros(0, int)
    steps = np.diff(ends.astype(np.int64), prepend=0)
    total = int(ends[-1]) if len(ends) else 0
    if ends.ndim != 1 or ends.dtype.kind not in "iu" or (steps < 0).any():
        raise ConversionError(
            f"{node.path} does not contain the increasing ends of episodes.", "", node.path
        )
    for array in arrays.values():
        if array.shape[0] < total:
            raise ConversionError(
                f"{array.path} has {array.shape[0]:,} rows, but the episodes end at {total:,}.",
                "The source is incomplete: copy it again.",
                array.path,
            )
        if array.shape[0] > total:
            losses.note("Rows after the end of the last episode were not imported.")
    losses.note("{n} episodes without a step: not imported.", int((steps == 0).sum()))
    pairs = zip((ends - steps).tolist(), ends.tolist(), strict=True)
    return [(int(start), int(stop)) for start, stop in pairs if stop > start]


def _schema(arrays: Mapping[str, ArrayReader], action_key: str, spans: Spans, path: Path) -> Schema:
    if action_key not in arrays:
        raise ConversionError(
            f"{path} has no data/{action_key}.",
            f"Give the array of the actions as action_key; arrays: {', '.join(arrays) or 'none'}.",
            path,
        )
    action = arrays[action_key]
    low = high = 0
    if np.dtype(action.dtype).kind in "iu":
        for start, stop in spans:
            rows = action.rows(start, stop)
            low, high = min(low, int(rows.min())), max(high, int(rows.max()))
    reward = next((arrays[name] for name in REWARDS if name in arrays), None)
    small = reward is not None and reward.dtype in {"float16", "float32"}
    obs = {
        key: ArraySpec("box", array.shape[1:], array.dtype)
        for key, array in arrays.items()
        if key not in (action_key, *REWARDS)
    }
    return Schema(
        obs=obs,
        action=infer_action(action.shape, action.dtype, low, high),
        reward=ArraySpec("box", (), "float32" if small else "float64"),
    )


class _Reader:
    def __init__(
        self,
        arrays: Mapping[str, ArrayReader],
        schema: Schema,
        action_key: str,
        losses: Losses,
        path: Path,
    ) -> None:
        self._obs = {key: arrays[flat_key(key)] for key in schema.obs}
        self._action = arrays[action_key]
        self._reward = next((arrays[name] for name in REWARDS if name in arrays), None)
        self._schema, self._losses, self._path = schema, losses, path
        if self._reward is None:
            losses.note("The source has no rewards: they are all zero.")

    def episodes(
        self, spans: Spans, records: EpisodeRecords | None, end: End, choice: FinalObservation
    ) -> Iterator[Episode]:
        for number, (start, stop) in enumerate(spans):
            reward = np.zeros(stop - start, self._schema.reward.dtype)
            if self._reward is not None:
                reward = self._reward.rows(start, stop).reshape(-1)
            flat = FlatEpisode(
                obs={key: array.rows(start, stop) for key, array in self._obs.items()},
                action=self._action.rows(start, stop),
                reward=reward,
                terminated=end == "terminated",
                truncated=end == "truncated",
            ).recorded(records, number)
            episode = assemble(flat, self._schema, choice, self._losses, self._path)
            if episode is not None:
                yield episode
        for array in (*self._obs.values(), self._action):
            text = (
                f"{array.path.name}: {{n}} chunks are not stored and were read as the fill value."
            )
            self._losses.note(text, array.missing)


# --- export ---


def write(
    dataset: Dataset,
    target: Path,
    episodes: Episodes,
    losses: Losses,
    *,
    rewards: bool = True,
) -> None:
    """`rewards` adds data/reward, which Diffusion Policy does not read."""
    schema = replace(dataset.schema, info={})
    specs = _specs(schema, rewards, dataset.path)
    total = dataset.num_steps
    with zarr.config.set({"json_indent": None}):
        root = zarr.create_group(target, zarr_format=2)
        data, meta = root.create_group("data"), root.create_group("meta")
        writers = {key: ArrayWriter(data, key, spec, total) for key, spec in specs.items()}
        counts = ArraySpec("box", (), "int64")
        ends = ArrayWriter(meta, "episode_ends", counts, dataset.num_episodes)
    records, stop = EpisodeRecords(), 0
    for episode in episodes:
        for key in schema.obs:
            writers[flat_key(key)].append(episode.obs[key][:-1])
        writers["action"].append(departing(episode.action))
        if rewards:
            writers["reward"].append(departing(episode.reward))
        stop += episode.length
        ends.append(np.array([stop]))
        records.add(episode)
        losses.note("The format has no final observations: those of {n} episodes were left out.")
    for writer in (*writers.values(), ends):
        writer.close()
    _note_left_out(dataset, losses, rewards)
    sidecar = replace(Sidecar.of(dataset, records), schema=schema)
    original = dataset.header["attributes"].get("diffusion-zarr", {})
    with zarr.config.set({"json_indent": None}):
        root.attrs.put({**original, KEY: sidecar.to_json()})


def _specs(schema: Schema, rewards: bool, path: Path) -> dict[str, ArraySpec]:
    """The arrays under data/."""
    names = [flat_key(key) for key in schema.obs]
    if len(set(names)) < len(names) or {"action", *REWARDS} & set(names):
        raise ConversionError(
            f"Observation keys of {path} clash in this format.",
            "Rename them before the export ('a/b' is written as 'a.b').",
            path,
        )
    specs = dict(zip(names, schema.obs.values(), strict=True)) | {"action": schema.action}
    return specs | {"reward": schema.reward} if rewards else specs


def _note_left_out(dataset: Dataset, losses: Losses, rewards: bool) -> None:
    if not rewards:
        losses.note("Rewards were left out.")
    if dataset.schema.info:
        losses.note(f"The format has no infos; left out: {', '.join(dataset.schema.info)}.")
    losses.note(
        "The format has no termination, truncation, seeds and provenance: only wmtk restores them, "
        "from the attribute 'wmtk' of the root group."
    )
