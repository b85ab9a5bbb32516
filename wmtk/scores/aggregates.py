"""The four aggregate scores of the DreamerV2 paper.

Scores are arrays (S, G), one row per seed and one column per game. As the caption of the paper's
score table specifies, each row is aggregated separately and the results are averaged over seeds.
For the median and for clipped scores this differs from aggregating scores averaged over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmtk.scores.games import References
from wmtk.stats import CONFIDENCE, VALUE_RESAMPLES, Interval, blocks, percentile_interval


@dataclass(frozen=True)
class Protocol:
    """Normalize each score by `reference`, clip it if `clip`, take the `center` over games."""

    name: str
    title: str
    reference: Literal["gamer", "record"]
    center: Literal["median", "mean"]
    clip: bool = False


PROTOCOLS = (
    Protocol("gamer_median", "Gamer Median", "gamer", "median"),
    Protocol("gamer_mean", "Gamer Mean", "gamer", "mean"),
    Protocol("record_mean", "Record Mean", "record", "mean"),
    Protocol("clipped_record_mean", "Clipped Record Mean", "record", "mean", clip=True),
)


def normalize(
    scores: ArrayLike, random: ArrayLike, reference: ArrayLike, *, clip: bool = False
) -> NDArray[np.float64]:
    """Scale scores (…, G) so that `random` (G,) is 0 and `reference` (G,) is 1.

    `clip` limits the results to 1 from above; scores below random play stay negative.
    """
    low, high = np.asarray(random, np.float64), np.asarray(reference, np.float64)
    assert (high > low).all(), (low, high)
    normalized = (np.asarray(scores, np.float64) - low) / (high - low)
    return np.minimum(normalized, 1.0) if clip else normalized


def aggregate(scores: ArrayLike, references: References) -> dict[str, float]:
    """The four aggregates, by protocol name, of scores (S, G), or (G,) for a single seed."""
    table = _table(scores, references)
    return {p.name: float(_center(_normalized(table, references, p), p)) for p in PROTOCOLS}


def aggregate_intervals(
    scores: ArrayLike,
    references: References,
    *,
    over_games: bool = False,
    confidence: float = CONFIDENCE,
    resamples: int = VALUE_RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Percentile bootstrap intervals of the four aggregates of scores (S, G), by protocol name.

    Seeds are resampled independently for each game. `over_games` resamples the games too: the
    intervals then include the variation over the choice of games.
    """
    table = _table(scores, references)
    S, G = table.shape
    assert S > 1 or over_games, "resampling needs several seeds"
    rng = np.random.default_rng(seed)
    samples: dict[str, list[NDArray[np.float64]]] = {p.name: [] for p in PROTOCOLS}
    for count in blocks(resamples, S * G):
        games = rng.integers(0, G, (count, 1, G)) if over_games else np.arange(G)
        seeds = rng.integers(0, S, (count, S, G))
        for p in PROTOCOLS:
            resampled = _normalized(table, references, p)[seeds, games]  # (count, S, G)
            samples[p.name].append(_center(resampled, p))
    return {
        name: percentile_interval(np.concatenate(parts), confidence)
        for name, parts in samples.items()
    }


def _table(scores: ArrayLike, references: References) -> NDArray[np.float64]:
    """Scores as (S, G)."""
    table = np.atleast_2d(np.asarray(scores, np.float64))
    assert table.ndim == 2, table.shape
    assert table.shape[1] == len(references.random) > 0, (table.shape, len(references.random))
    assert np.isfinite(table).all(), table
    return table


def _normalized(
    table: NDArray[np.float64], references: References, protocol: Protocol
) -> NDArray[np.float64]:
    reference = references.gamer if protocol.reference == "gamer" else references.record
    return normalize(table, references.random, reference, clip=protocol.clip)


def _center(normalized: NDArray[np.float64], protocol: Protocol) -> NDArray[np.float64]:
    """Aggregate (…, S, G) over games, then average over seeds: (…)."""
    center = np.median if protocol.center == "median" else np.mean
    by_seed: NDArray[np.float64] = center(normalized, axis=-1)
    mean: NDArray[np.float64] = np.mean(by_seed, axis=-1)
    return mean
