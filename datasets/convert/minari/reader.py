"""Import Minari 0.5 HDF5: T+1 observations and infos, T of other arrays."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from wmtk.datasets.convert import hdf5
from wmtk.datasets.convert.alignment import arriving, exactly
from wmtk.datasets.convert.formats import ImportSource, Losses
from wmtk.datasets.convert.minari.scan import ArrayScan, decode_jpeg
from wmtk.datasets.convert.minari.space_json import (
    DATASET_ID,
    EPISODE_KEY,
    MAIN_FILE,
    METADATA,
    STORAGE_KEYS,
    env_spec,
    parse_space,
)
from wmtk.datasets.convert.origin import environment_of
from wmtk.datasets.convert.sidecar import KEY, MISMATCH, EpisodeOrigin, Sidecar, describes
from wmtk.datasets.convert.untrusted import ForeignDocument, parse_json, plain, read_json
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError

ALIGNMENT = (
    "T+1 observations and infos, T of the rest: entry t of actions was taken at o_t, rewards, "
    "terminations and truncations were received after it."
)
_OWN_ATTRIBUTES = {"id", "total_steps", "seed", EPISODE_KEY}
_INSIDE = "{n} episodes have flags before their last step: only those of the last step were kept."


class MinariMetadata(ForeignDocument):
    total_episodes: Annotated[int, Field(ge=0)]


def locate(source: str) -> Path:
    """The path of a dataset id in Minari's folder of datasets; other texts are paths."""
    if DATASET_ID.fullmatch(source):
        root = os.environ.get("MINARI_DATASETS_PATH")
        folder = Path(root) if root else Path.home() / ".minari" / "datasets"
        return folder / source
    return Path(source)


def _data_folder(path: Path) -> Path | None:
    for folder in (path, path / "data"):
        if (folder / METADATA).is_file() and not folder.is_symlink():
            return folder
    return None


def recognizes(path: Path) -> bool:
    folder = _data_folder(path)
    if folder is None:
        return False
    return (folder / MAIN_FILE).is_file() or "minari_version" in read_json(folder / METADATA)


@contextlib.contextmanager
def read(path: Path) -> Iterator[ImportSource]:
    folder = _data_folder(path)
    if folder is None:
        raise ConversionError(f"{path} is not a Minari dataset: no data/{METADATA}.", "", path)
    metadata = read_json(folder / METADATA)
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise ConversionError(
            f"{path} stores its data as {metadata['data_format']!r}, not as HDF5.",
            "Convert it with Minari first: minari.convert(…, data_format='hdf5').",
            path,
        )
    if not {"observation_space", "action_space"} <= metadata.keys():
        raise ConversionError(
            f"{folder / METADATA} has no spaces.",
            "It was written by Minari before 0.5: load and save it again with Minari.",
            folder / METADATA,
        )
    obs_space = parse_space(metadata["observation_space"], folder)
    action_space = parse_space(metadata["action_space"], folder)
    counts = MinariMetadata.read(metadata, folder / METADATA, "It is damaged: copy it again.")
    main = folder / MAIN_FILE
    with hdf5.open_hdf5(main) as file:
        losses = Losses()
        with hdf5.guarded(main):
            scan = ArrayScan(main, file, counts.total_episodes, obs_space, action_space, losses)
        schema, spec = scan.schema, env_spec(metadata)
        env = {}
        if spec:
            env = environment_of(spec["id"], spec["kwargs"], schema, spec["time_limit"])
        original = {key: plain(metadata[key]) for key in metadata.keys() - STORAGE_KEYS}
        source = {"format": "minari", "alignment": ALIGNMENT}
        attributes: dict[str, Any] = {"source": source, "minari": original}
        if (stored := metadata.get(KEY)) is not None:
            sidecar = Sidecar.from_json(stored, folder / METADATA)
            if describes(sidecar.schema, schema, scan.rename):
                schema, env, attributes = sidecar.schema, sidecar.env, sidecar.attributes
            else:
                losses.note(MISMATCH)
        episodes = _episodes(scan, schema, _provenance(metadata, spec), losses)
        yield ImportSource(schema, len(scan.numbers), episodes, losses, env, attributes)


def _provenance(metadata: dict[str, Any], spec: dict[str, Any]) -> Provenance:
    """The provenance of all episodes in Minari's metadata."""
    return Provenance(
        env_id=spec.get("id", ""),
        env_kwargs=spec.get("kwargs", {}),
        policy=str(metadata.get("algorithm_name", "")),
        code_version=f"minari {metadata.get('minari_version', 'of unknown version')}",
    )


def _episodes(
    scan: ArrayScan, schema: Schema, common: Provenance, losses: Losses
) -> Iterator[Episode]:
    for number in scan.numbers:
        with hdf5.guarded(scan.path):
            episode = _episode(scan, scan.group(number), schema, common, losses)
        yield episode


def _episode(
    scan: ArrayScan, group: Any, schema: Schema, common: Provenance, losses: Losses
) -> Episode:
    seed, provenance = _origin(dict(group.attrs), common, scan.path)
    flags = {}
    for name in ("terminations", "truncations"):
        node = hdf5.array(group, name, scan.path)
        flags[name] = hdf5.rows(node, 0, len(node), scan.path) != 0
    losses.note(_INSIDE, int(any(values[:-1].any() for values in flags.values())))
    action = _whole(scan, group, "actions", schema.action.dtype)
    reward = _whole(scan, group, "rewards", schema.reward.dtype).reshape(-1)
    return Episode(
        obs={key: _observation(scan, group, key, schema) for key in schema.obs},
        action=arriving(action),
        reward=arriving(reward),
        terminated=bool(flags["terminations"][-1]),
        truncated=bool(flags["truncations"][-1]),
        info={key: _info(scan, group, key, schema, losses) for key in schema.info},
        seed=seed,
        provenance=provenance,
    )


def _whole(scan: ArrayScan, group: Any, name: str, dtype: str) -> Any:
    node = hdf5.array(group, name, scan.path)
    return exactly(hdf5.rows(node, 0, len(node), scan.path), dtype, node.name, scan.path)


def _observation(scan: ArrayScan, group: Any, key: str, schema: Schema) -> Any:
    spec = schema.obs[key]
    name = scan.rename(key)
    if name in scan.jpeg:
        return decode_jpeg(scan.node(group, scan.paths[name]), spec, scan.path)
    return _whole(scan, group, scan.paths[name], spec.dtype)


def _info(scan: ArrayScan, group: Any, key: str, schema: Schema, losses: Losses) -> Any:
    rows = _whole(scan, group, f"infos/{key}", schema.info[key].dtype)
    if scan.info_offset[key] == 1:
        return rows
    losses.note(f"infos/{key} has no entry for the reset: row 0 of it is zero.")
    return arriving(rows)


def _origin(
    attributes: dict[str, Any], common: Provenance, path: Path
) -> tuple[int | None, Provenance]:
    """Seed and provenance, from the record of wmtk or from Minari's attributes."""
    if EPISODE_KEY in attributes:
        record = plain(parse_json(plain(attributes[EPISODE_KEY]), path))
        origin = EpisodeOrigin.read(record, path, "Export the dataset again.")
        return origin.seed, origin.provenance.value()
    other = {str(k): plain(v) for k, v in attributes.items() if k not in _OWN_ATTRIBUTES}
    seed = attributes.get("seed")
    extra = {"minari": other} if other else {}
    return None if seed is None else int(seed), Provenance(**{**vars(common), "extra": extra})
