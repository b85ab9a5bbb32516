"""Import and export D4RL-style HDF5: flat rows, split into episodes at terminals and timeouts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wmtk.datasets.convert import hdf5
from wmtk.datasets.convert.alignment import (
    FinalObservation,
    FlatEpisode,
    Rows,
    assemble,
    check_final_option,
    departing,
)
from wmtk.datasets.convert.d4rl.flat_table import FINAL_INFOS, FlatTable, differ
from wmtk.datasets.convert.formats import Episodes, ImportSource, Losses
from wmtk.datasets.convert.origin import named_in
from wmtk.datasets.convert.sidecar import KEY, EpisodeRecords, Sidecar
from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, UsageError

ALIGNMENT = (
    "T flat rows per episode: row t holds o_t, the action taken at it, and the reward, terminal "
    "and timeout received after it; next_observations, if there, holds o_(t+1)."
)
_NO_TIMEOUTS = (
    "The source has no timeouts: truncated episodes are joined with the next ones, unless "
    "max_episode_steps is given or next_observations shows a gap."
)
_GAPS = "At {n} steps next_observations is not the observation that follows: a new episode begins."
_IGNORED = "At {n} steps next_observations is not the observation that follows: the latter is used."
Span = tuple[int, int, bool, bool]  # first row, row after the last, terminated, truncated


def recognizes(path: Path) -> bool:
    if not hdf5.is_hdf5(path):
        return False
    with hdf5.open_hdf5(path) as file, hdf5.guarded(path):
        return {"observations", "actions", "rewards", "terminals"} <= set(file)


# --- reading ---


@contextlib.contextmanager
def read(
    path: Path,
    *,
    final_observation: FinalObservation = "repeat",
    max_episode_steps: int | None = None,
) -> Iterator[ImportSource]:
    """`max_episode_steps` truncates episodes in files without timeouts."""
    check_final_option(final_observation)
    if max_episode_steps is not None and max_episode_steps < 1:
        raise UsageError("max_episode_steps must be 1 or more.")
    with hdf5.open_hdf5(path) as file:
        with hdf5.guarded(path):
            source = _open(path, file, max_episode_steps, final_observation)
        yield source


def _open(path: Path, file: Any, limit: int | None, choice: FinalObservation) -> ImportSource:
    losses = Losses()
    table = FlatTable(path, file, losses)
    spans = list(_spans(table, limit))
    lengths = [stop - start for start, stop, _, _ in spans]
    schema = table.schema()
    key = next(iter(schema.obs))
    rename = (lambda _: key) if "" in table.obs else str  # a single array has no key
    sidecar = Sidecar.matching(table.description(), path, losses, lengths, schema, rename)
    if sidecar is None:
        table.note_inferred()
        metadata = table.metadata()
        attributes = {"source": {"format": "d4rl", "alignment": ALIGNMENT}, "d4rl": metadata}
        env = named_in({**metadata["metadata"], **metadata["attributes"]}, schema)
        episodes = _episodes(table, schema, spans, None, choice)
        return ImportSource(schema, len(spans), episodes, losses, env, attributes)
    schema = sidecar.schema
    episodes = _episodes(table, schema, spans, sidecar.episodes, choice)
    return ImportSource(schema, len(spans), episodes, losses, sidecar.env, sidecar.attributes)


def _spans(table: FlatTable, limit: int | None) -> Iterator[Span]:
    """Split at terminals and timeouts; without timeouts, by `limit` or at gaps."""
    terminals, timeouts = table.flags("terminals"), table.flags("timeouts")
    if terminals is None:
        raise ConversionError(
            f"{table.path} has no terminals.", "It is not a D4RL file.", table.path
        )
    gaps = np.zeros(table.length, bool)
    if timeouts is None:
        timeouts = np.zeros(table.length, bool)
        if limit is None:
            gaps = table.gaps()
            table.losses.note(_NO_TIMEOUTS)
            table.losses.note(_GAPS, int((gaps & ~terminals).sum()))
    start = 0
    for end in [*np.flatnonzero(terminals | timeouts | gaps).tolist(), table.length - 1]:
        while limit is not None and end - start >= limit:
            yield start, start + limit, False, True
            start += limit
        if start <= end:
            at_limit = limit is not None and end + 1 - start == limit and not terminals[end]
            yield start, end + 1, bool(terminals[end]), bool(timeouts[end]) or at_limit
            start = end + 1


def _episodes(
    table: FlatTable,
    schema: Schema,
    spans: list[Span],
    records: EpisodeRecords | None,
    choice: FinalObservation,
) -> Iterator[Episode]:
    with hdf5.guarded(table.path):
        finals = table.final_infos(len(spans))
    for number, (start, stop, terminated, truncated) in enumerate(spans):
        with hdf5.guarded(table.path):
            flat = _piece(table, schema, start, stop)
            if finals:
                rows = {k: hdf5.rows(n, number, number + 1, table.path) for k, n in finals.items()}
                flat.final_info = {key: row[0] for key, row in rows.items()}
        flat.terminated, flat.truncated = terminated, truncated
        flat.recorded(records, number)
        episode = assemble(flat, schema, choice, table.losses, table.path)
        if episode is not None:
            yield episode


def _piece(table: FlatTable, schema: Schema, start: int, stop: int) -> FlatEpisode:
    def span(node: Any) -> Rows:
        return hdf5.rows(node, start, stop, table.path)

    obs, final = {}, {}
    for key in schema.obs:
        stored = "" if "" in table.obs else key
        obs[key] = span(table.obs[stored])
        if table.next_obs:
            after = span(table.next_obs[stored])
            table.losses.note(_IGNORED, int(differ(after[:-1], obs[key][1:]).sum()))
            final[key] = after[-1]
    return FlatEpisode(
        obs=obs,
        action=span(table.actions),
        reward=span(table.rewards).reshape(-1),
        info={key: span(table.infos[key]) for key in schema.info},
        final_obs=final or None,
    )


# --- writing ---


def write(
    dataset: Dataset,
    target: Path,
    episodes: Episodes,
    losses: Losses,
    *,
    next_observations: bool = True,
    compression: str | None = "gzip",
) -> None:
    """Without `next_observations` the file is half the size and final observations are lost."""
    compression = hdf5.check_compression(compression)
    steps, count = dataset.num_steps, dataset.num_episodes
    records = EpisodeRecords()
    with hdf5.create_hdf5(target) as file:
        start = 0
        for number, episode in enumerate(episodes):
            columns = _columns(dataset.schema, episode, next_observations)
            for name, rows in columns.items():
                if number == 0:
                    hdf5.create(file, name, (steps, *rows.shape[1:]), rows.dtype, compression)
                file[name][start : start + episode.length] = rows
            for key, rows in episode.info.items():
                name = f"metadata/{FINAL_INFOS}/{key}"
                if number == 0:
                    hdf5.create(file, name, (count, *rows.shape[1:]), rows.dtype, compression)
                file[name][number] = rows[-1]
            start += episode.length
            records.add(episode)
            _note_losses(losses, episode, next_observations)
        _write_metadata(file, dataset, records, losses)
    if len(dataset.schema.obs) > 1:
        losses.note(
            "D4RL has one observations array: the keys were written as observations/<key>, "
            "which d4rl's own loader does not join."
        )


def _columns(schema: Schema, episode: Episode, next_observations: bool) -> dict[str, Rows]:
    """T rows of each array of the file."""
    last = np.arange(1, episode.length + 1) == episode.length
    columns = {}
    for key, rows in episode.obs.items():
        suffix = f"/{key}" if len(schema.obs) > 1 else ""
        columns[f"observations{suffix}"] = rows[:-1]
        if next_observations:
            columns[f"next_observations{suffix}"] = rows[1:]
    return {
        **columns,
        "actions": departing(episode.action),
        "rewards": departing(episode.reward),
        "terminals": last & episode.terminated,
        # Readers join an episode without an end with the next one.
        "timeouts": last & (episode.truncated or not episode.terminated),
        **{f"infos/{key}": rows[:-1] for key, rows in episode.info.items()},
    }


def _note_losses(losses: Losses, episode: Episode, next_observations: bool) -> None:
    if not next_observations:
        losses.note("The final observations of {n} episodes were left out.")
    if not (episode.terminated or episode.truncated):
        losses.note("{n} episodes without an end are marked as timeouts; only wmtk restores them.")


def _write_metadata(file: Any, dataset: Dataset, records: EpisodeRecords, losses: Losses) -> None:
    """Write the metadata of the original source and the sidecar."""
    document = json.dumps(Sidecar.of(dataset, records).to_json()).encode()
    node = hdf5.create(file, f"metadata/{KEY}", (len(document),), np.uint8, "gzip")
    node[...] = np.frombuffer(document, np.uint8)
    original = dataset.header["attributes"].get("d4rl", {})
    for key, value in original.get("metadata", {}).items():
        try:
            file[f"metadata/{key}"] = value
        except (TypeError, ValueError):
            losses.note(f"metadata/{key} could not be written back as HDF5.")
    for key, value in original.get("attributes", {}).items():
        file.attrs[key] = value
