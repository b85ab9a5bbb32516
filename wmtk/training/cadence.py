"""How often a training reports, looks at held-out data, draws and saves."""

from __future__ import annotations

from pydantic import Field

from wmtk.config import Config


class Cadence(Config):
    """In updates. All of it also happens at the end, and none of it changes what is learnt."""

    log: int = Field(50, ge=1)
    evaluate: int = Field(500, ge=1)
    checkpoint: int = Field(500, ge=1)
    keep: int = Field(3, ge=1)  # of the newest checkpoints, how many; the best stays besides
    picture: int = Field(1000, ge=1)
    held_out_batches: int = Field(10, ge=1)
