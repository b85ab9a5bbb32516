"""Between the alignments: what was taken at o_t against what led to o_t (schema.ALIGNMENT)."""

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
# What to do at the end of an episode whose last observation the source does not have.
FinalObservation = Literal["repeat", "drop"]
FINAL_OBSERVATION = "final_observation"  # the flag in Provenance.extra
REPEATED, DROPPED = "missing, repeated", "missing, last step dropped"


def arriving(taken: Rows) -> Rows:
    """(T, …) values taken at or received after o_t → (T+1, …) values that led to o_t."""
    rows = np.zeros((len(taken) + 1, *taken.shape[1:]), taken.dtype)
    rows[1:] = taken
    return rows


def departing(arrived: Rows) -> Rows:
    """The inverse: (T+1, …) → (T, …)."""
    return arrived[1:]


def with_final(rows: Rows, final: Rows | None) -> Rows:
    """(T, …) rows at o_0 … o_(T−1) → (T+1, …), the last given or a repetition."""
    return np.concatenate([rows, rows[-1:] if final is None else final[None]])


def check_final_option(choice: str) -> None:
    if choice not in ("repeat", "drop"):
        raise UsageError(f"final_observation={choice!r} is unknown.", "Use 'repeat' or 'drop'.")


def note_final(choice: FinalObservation, losses: Losses) -> None:
    """Say for one episode how its missing last observation was dealt with."""
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
    """The provenance with the flag that says how the missing last observation was replaced."""
    extra = {**provenance.extra, FINAL_OBSERVATION: REPEATED if choice == "repeat" else DROPPED}
    return Provenance.from_json({**provenance.to_json(), "extra": extra})


def exactly(rows: Rows, dtype: str, what: str, path: Path) -> Rows:
    """`rows` as `dtype`, refusing to change a value."""
    if rows.dtype == dtype:
        return rows
    with np.errstate(invalid="ignore", over="ignore"):
        cast = rows.astype(dtype)
    if not same_values(cast, rows):
        raise ConversionError(
            f"{what} in {path} has dtype {rows.dtype.name} and does not fit into {dtype}.",
            "The episodes of a dataset must have one dtype per array.",
            path,
        )
    return cast


def same_values(a: Rows, b: Rows) -> bool:
    floats = a.dtype.kind == "f" and b.dtype.kind == "f"
    return bool(np.array_equal(a, b, equal_nan=floats))


def observation_key(spec: ArraySpec) -> str:
    """The key of an observation that is one array, as `wmtk.spaces.flatten_space` names it."""
    return "image" if spec.dtype == "uint8" and spec.shape else "state"


def infer_action(rows_shape: tuple[int, ...], dtype: str, low: int, high: int) -> ArraySpec:
    """The space of actions that come without one: integers are choices, floats are a box."""
    shape = rows_shape[1:]
    if np.dtype(dtype).kind not in "iu":
        return ArraySpec("box", shape, dtype)
    if shape:
        return ArraySpec("box", shape, dtype, low, high)
    return ArraySpec("discrete", (), dtype, min(low, 0), high)


INFERRED_ACTIONS = (
    "The source does not say how many actions there are: the number was taken from the largest "
    "one in the data."
)


@dataclass
class Piece:
    """T rows of every array, as the flat formats have them."""

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

    def recorded(self, records: EpisodeRecords | None, number: int) -> Piece:
        """The piece with what wmtk's own description knows of episode `number`."""
        if records is not None:
            self.terminated = bool(records.ends[number] & 1)
            self.truncated = bool(records.ends[number] & 2)
            self.seed = records.seeds[number]
            self.provenance = records.provenance(number)
        return self


def assemble(
    piece: Piece, schema: Schema, choice: FinalObservation, losses: Losses, path: Path
) -> Episode | None:
    """The episode of a piece; None if dropping its last step leaves nothing."""
    missing = piece.final_obs is None
    if missing:
        note_final(choice, losses)
    if missing and choice == "drop":
        return _without_last_step(piece, schema, path)
    obs, info = {}, {}
    for key, spec in schema.obs.items():
        final = None if piece.final_obs is None else piece.final_obs[key]
        obs[key] = exactly(with_final(piece.obs[key], final), spec.dtype, key, path)
    for key, spec in schema.info.items():
        final = None if piece.final_info is None else piece.final_info[key]
        if final is None:
            losses.note("infos have no row for the final observation: their last row repeats.")
        info[key] = exactly(with_final(piece.info[key], final), spec.dtype, key, path)
    return Episode(
        obs=obs,
        action=arriving(exactly(piece.action, schema.action.dtype, "action", path)),
        reward=arriving(exactly(piece.reward, schema.reward.dtype, "reward", path)),
        terminated=piece.terminated,
        truncated=piece.truncated,
        info=info,
        seed=piece.seed,
        provenance=flagged(piece.provenance, choice) if missing else piece.provenance,
    )


def _without_last_step(piece: Piece, schema: Schema, path: Path) -> Episode | None:
    """T rows are an episode of T−1 steps: its end is unknown."""
    if len(piece.reward) < 2:
        return None
    return Episode(
        obs={k: exactly(piece.obs[k], spec.dtype, k, path) for k, spec in schema.obs.items()},
        action=arriving(exactly(piece.action[:-1], schema.action.dtype, "action", path)),
        reward=arriving(exactly(piece.reward[:-1], schema.reward.dtype, "reward", path)),
        terminated=False,
        truncated=False,
        info={k: exactly(piece.info[k], spec.dtype, k, path) for k, spec in schema.info.items()},
        seed=piece.seed,
        provenance=flagged(piece.provenance, "drop"),
    )
