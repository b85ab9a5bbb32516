"""Convert between row alignments: actions taken at o_t, and actions that led to o_t.

Datasets store the latter (see `schema.ALIGNMENT`). Flat formats have T rows per episode and often
no final observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.convert.formats import Losses
from wmtk.datasets.convert.sidecar import EpisodeRecords
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, UsageError
from wmtk.spaces import ArraySpec

Rows = NDArray[Any]
# How to complete an episode whose final observation is missing in the source.
FinalObservation = Literal["repeat", "drop"]
FINAL_OBSERVATION = "final_observation"  # the flag in Provenance.extra
REPEATED, DROPPED = "missing, repeated", "missing, last step dropped"


def arriving(values: Rows) -> Rows:
    """Move the value of step t to row t+1, after a zero row: (T, …) to (T+1, …)."""
    rows = np.zeros((len(values) + 1, *values.shape[1:]), values.dtype)
    rows[1:] = values
    return rows


def departing(rows: Rows) -> Rows:
    """The inverse of `arriving`: (T+1, …) to (T, …)."""
    return rows[1:]


def with_final(rows: Rows, final: Rows | None) -> Rows:
    """Append the final row to rows (T, …); by default the last row is repeated."""
    return np.concatenate([rows, rows[-1:] if final is None else final[None]])


def check_final_option(choice: str) -> None:
    if choice not in ("repeat", "drop"):
        raise UsageError(f"final_observation={choice!r} is unknown.", "Use 'repeat' or 'drop'.")


def note_final(choice: FinalObservation, losses: Losses) -> None:
    """Record how the missing final observation of one episode is replaced."""
    if choice == "drop":
        losses.note(
            "The source has no final observations: the last step of {n} episodes, with its "
            "reward and ending, was dropped."
        )
    else:
        losses.note(
            "The source has no final observations: in {n} episodes the last one repeats the one "
            f"before (provenance extra {FINAL_OBSERVATION!r}: {REPEATED!r})."
        )


def flagged(provenance: Provenance, choice: FinalObservation) -> Provenance:
    """The provenance with a flag for the replaced final observation."""
    extra = {**provenance.extra, FINAL_OBSERVATION: REPEATED if choice == "repeat" else DROPPED}
    return Provenance.from_json({**provenance.to_json(), "extra": extra})


def exactly(rows: Rows, dtype: str, what: str, path: Path) -> Rows:
    """Cast `rows` to `dtype`; changed values are refused."""
    if rows.dtype == dtype:
        return rows
    with np.errstate(invalid="ignore", over="ignore"):
        cast = rows.astype(dtype)
    if not same_values(cast, rows):
        raise ConversionError(
            f"{what} in {path} has dtype {rows.dtype.name}, which {dtype} cannot represent.",
            "The episodes of a dataset must have one dtype per array.",
            path,
        )
    return cast


def same_values(a: Rows, b: Rows) -> bool:
    floats = a.dtype.kind == "f" and b.dtype.kind == "f"
    return bool(np.array_equal(a, b, equal_nan=floats))


def observation_key(spec: ArraySpec) -> str:
    """The key of an observation without keys, as in `wmtk.spaces.flatten_space`."""
    return "image" if spec.dtype == "uint8" and spec.shape else "state"


def infer_action(rows_shape: tuple[int, ...], dtype: str, low: int, high: int) -> ArraySpec:
    """The action space of data without one: Discrete for integers, Box for floats."""
    shape = rows_shape[1:]
    if np.dtype(dtype).kind not in "iu":
        return ArraySpec("box", shape, dtype)
    if shape:
        return ArraySpec("box", shape, dtype, low, high)
    return ArraySpec("discrete", (), dtype, min(low, 0), high)


INFERRED_ACTIONS = (
    "The source does not declare the number of actions: it was inferred from the largest one "
    "in the data."
)


@dataclass
class FlatEpisode:
    """T rows of each array of an episode, as in flat formats."""

    obs: Mapping[str, Rows]
    action: Rows
    reward: Rows
    info: Mapping[str, Rows] = field(default_factory=dict)
    final_obs: Mapping[str, Rows] | None = None  # one row each, if the source has it
    final_info: Mapping[str, Rows] | None = None
    terminated: bool = False
    truncated: bool = False
    seed: int | None = None
    provenance: Provenance = field(default_factory=Provenance)

    def recorded(self, records: EpisodeRecords | None, number: int) -> FlatEpisode:
        """Apply the records of episode `number` from the sidecar."""
        if records is not None:
            self.terminated = bool(records.ends[number] & 1)
            self.truncated = bool(records.ends[number] & 2)
            self.seed = records.seeds[number]
            self.provenance = records.provenance(number)
        return self


def assemble(
    flat: FlatEpisode, schema: Schema, choice: FinalObservation, losses: Losses, path: Path
) -> Episode | None:
    """Build the episode; None if dropping its last step leaves no step."""
    missing = flat.final_obs is None
    if missing:
        note_final(choice, losses)
    if missing and choice == "drop":
        return _without_last_step(flat, schema, path)
    obs, info = {}, {}
    for key, spec in schema.obs.items():
        final = None if flat.final_obs is None else flat.final_obs[key]
        obs[key] = exactly(with_final(flat.obs[key], final), spec.dtype, key, path)
    for key, spec in schema.info.items():
        final = None if flat.final_info is None else flat.final_info[key]
        if final is None:
            losses.note("infos have no row for the final observation: their last row repeats.")
        info[key] = exactly(with_final(flat.info[key], final), spec.dtype, key, path)
    return Episode(
        obs=obs,
        action=arriving(exactly(flat.action, schema.action.dtype, "action", path)),
        reward=arriving(exactly(flat.reward, schema.reward.dtype, "reward", path)),
        terminated=flat.terminated,
        truncated=flat.truncated,
        info=info,
        seed=flat.seed,
        provenance=flagged(flat.provenance, choice) if missing else flat.provenance,
    )


def _without_last_step(flat: FlatEpisode, schema: Schema, path: Path) -> Episode | None:
    """T rows as an episode of T−1 steps, whose end is unknown."""
    if len(flat.reward) < 2:
        return None
    return Episode(
        obs={k: exactly(flat.obs[k], spec.dtype, k, path) for k, spec in schema.obs.items()},
        action=arriving(exactly(flat.action[:-1], schema.action.dtype, "action", path)),
        reward=arriving(exactly(flat.reward[:-1], schema.reward.dtype, "reward", path)),
        terminated=False,
        truncated=False,
        info={k: exactly(flat.info[k], spec.dtype, k, path) for k, spec in schema.info.items()},
        seed=flat.seed,
        provenance=flagged(flat.provenance, "drop"),
    )
