"""Between the alignments: what was taken at o_t against what led to o_t (schema.ALIGNMENT)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.convert.format import Losses
from wmtk.datasets.episode import Provenance
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
