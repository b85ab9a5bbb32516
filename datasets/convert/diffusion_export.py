"""Episodes → Diffusion Policy's replay buffers: zarr v2, T flat rows, cumulative ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from wmtk.datasets.convert.alignment import departing
from wmtk.datasets.convert.diffusion_zarr import REWARDS, flat_key
from wmtk.datasets.convert.format import Episodes, Losses
from wmtk.datasets.convert.sidecar import KEY, EpisodeRecords, Sidecar
from wmtk.datasets.convert.zarr_v2 import ArrayWriter
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError
from wmtk.spaces import ArraySpec


def write(
    dataset: Dataset,
    target: Path,
    episodes: Episodes,
    losses: Losses,
    *,
    rewards: bool = True,
) -> None:
    """`rewards` adds data/reward, which Diffusion Policy itself neither needs nor reads."""
    schema = replace(dataset.schema, info={})
    specs = _specs(schema, rewards, dataset.path)
    total = dataset.num_steps
    writers = {key: ArrayWriter(target / "data" / key, s, total) for key, s in specs.items()}
    ends = ArrayWriter(
        target / "meta" / "episode_ends", ArraySpec("box", (), "int64"), dataset.num_episodes
    )
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
    passed_on = dataset.header["attributes"].get("diffusion-zarr", {})
    attributes = {**passed_on, KEY: sidecar.to_json()}
    (target / ".zattrs").write_text(json.dumps(attributes), "utf-8")
    for group in (target, target / "data", target / "meta"):
        (group / ".zgroup").write_text('{"zarr_format": 2}', "utf-8")


def _specs(schema: Schema, rewards: bool, path: Path) -> dict[str, ArraySpec]:
    """The arrays under data/."""
    names = [flat_key(key) for key in schema.obs]
    if len(set(names)) < len(names) or {"action", *REWARDS} & set(names):
        raise ConversionError(
            f"Observation keys of {path} clash with others in this format.",
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
        "The format does not say how episodes ended, nor seeds and provenance: only wmtk reads "
        "them back, from the attribute 'wmtk' of the root group."
    )
