"""Samplers of training and held-out windows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from wmtk.agent.open_loop_images import CONTEXT, HORIZON
from wmtk.datasets import Batch, SequenceSampler, Source, all_of, split
from wmtk.datasets.schema_match import require_fit
from wmtk.errors import UsageError
from wmtk.runs.training_config import DataConfig

CANDIDATES = 8  # windows that are drawn, out of which the images show the longest
_MIB = 2**20


def make_sampler(
    config: DataConfig,
    sources: Sequence[Source],
    seed: int,
    *,
    val_fraction: float = 0.0,
    held_out: bool = False,
) -> SequenceSampler:
    """A sampler of the training side, or the held-out side, of every source."""
    sides = [_side(source, val_fraction, held_out) for source in sources]
    _require_episodes(sources, sides)
    return SequenceSampler(
        sides,
        batch_size=config.batch_size,
        length=config.length,
        seed=seed,
        uniform_over=config.uniform_over,
        memory=config.memory_mb * _MIB,
        observations=config.observations(sources[0].dataset.schema),
    )


def image_batch(
    config: DataConfig, sources: Sequence[Source], seed: int, fraction: float = 0.0
) -> Batch:
    """A batch of windows for open-loop images, from the same side as `fixed_batches`."""
    wide = config.override({"batch_size": CANDIDATES, "length": CONTEXT + HORIZON})
    return fixed_batches(wide, sources, seed, fraction, 1)[0]


def fixed_batches(
    config: DataConfig, sources: Sequence[Source], seed: int, fraction: float, count: int
) -> list[Batch]:
    """The first `count` batches of the held-out side, a pure function of the arguments.

    With a fraction of 0 they are drawn from the training data.
    """
    uncached = config.override({"memory_mb": 0})  # each window is read only once
    held_out = fraction > 0
    sampler = make_sampler(uncached, sources, seed, val_fraction=fraction, held_out=held_out)
    return [sampler.sample(number) for number in range(count)]


def require_same_spaces(sources: Sequence[Source], keys: Collection[str]) -> None:
    """Raise if datasets differ in the spaces of actions or of the observations `keys`."""
    first = sources[0].dataset
    for source in sources[1:]:
        other = source.dataset
        names = f"{first.path} and {other.path}"
        require_fit(first.schema.only(keys), other.schema, names)
        first.schema.require_same_arrays(other.schema, names, obs=keys)


def _side(source: Source, fraction: float, held_out: bool) -> Source:
    """The selected episodes of a source on one side of the split."""
    side = split(fraction, held_out=held_out)
    return replace(source, select=all_of(source.select, side) if source.select else side)


def _require_episodes(sources: Sequence[Source], sides: Sequence[Source]) -> None:
    for source, side in zip(sources, sides, strict=True):
        path = source.dataset.path
        if source.may_be_empty:
            continue
        if not len(source.table()):
            raise UsageError(
                f"{path} has no episodes to train on ({len(source.dataset)} before the selection).",
                "Collect some first, or relax the selection.",
            )
        if not len(side.table()):
            raise UsageError(
                f"{path} has too few episodes to hold some out for validation.",
                "Collect more, or train on all of them with val_fraction=0.",
            )


def require_window(length: int, sources: Sequence[Source]) -> None:
    """Raise if the data has fewer rows than one window."""
    tables = [source.table() for source in sources]
    rows = sum(table.steps + len(table) for table in tables)
    if rows < length:
        names = ", ".join(str(source.dataset.path) for source in sources)
        raise UsageError(
            f"{names}: {rows} rows are fewer than one window of {length}.",
            f"Collect more, or use shorter windows: data.length={max(rows // 2, 2)}.",
        )
