"""Episodes from formats with T rows each: what is taken at o_t, and often no last observation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wmtk.datasets.convert.alignment import (
    FinalObservation,
    Rows,
    arriving,
    exactly,
    flagged,
    note_final,
    with_final,
)
from wmtk.datasets.convert.format import Losses
from wmtk.datasets.convert.sidecar import EpisodeRecords
from wmtk.datasets.episode import Episode, Provenance
from wmtk.datasets.schema import Schema


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
