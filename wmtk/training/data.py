"""The data side of training: which windows are drawn from which episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from wmtk.config import Config
from wmtk.datasets import SequenceSampler, Source, split
from wmtk.datasets.table import Selection

_MIB = 2**20


class DataConfig(Config):
    """How batches are drawn."""

    batch_size: int = Field(50, ge=1)  # B
    length: int = Field(50, ge=2)  # L
    uniform_over: Literal["episodes", "steps"] = "episodes"
    memory_mb: int = Field(512, ge=0)  # decoded data that is kept


def make_sampler(
    config: DataConfig,
    sources: Sequence[Source],
    seed: int,
    *,
    val_fraction: float = 0.0,
    held_out: bool = False,
) -> SequenceSampler:
    """A sampler over one side of the train/validation split of every source."""
    chosen = [
        Source(source.dataset, source.weight, _both(source, val_fraction, held_out))
        for source in sources
    ]
    return SequenceSampler(
        chosen,
        batch_size=config.batch_size,
        length=config.length,
        seed=seed,
        uniform_over=config.uniform_over,
        memory=config.memory_mb * _MIB,
    )


def _both(source: Source, fraction: float, held_out: bool) -> Selection:
    """What the source selects, on one side of the split."""
    side = split(fraction, held_out=held_out)
    select = source.select
    if select is None:
        return side
    return lambda table: select(table) & side(table)
