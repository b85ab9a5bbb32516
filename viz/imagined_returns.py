"""The returns that a model imagines in windows, against the true ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmtk.stats import CONFIDENCE, RESAMPLES, Numbers
from wmtk.viz.evidence import Evidence
from wmtk.viz.interval_text import spoken, within
from wmtk.viz.metrics import Bootstrap, ReturnQuality, return_quality


@dataclass(frozen=True)
class ImaginedReturns:
    """Returns of the first imagined steps with the recorded actions.

    Windows that were cut off before are left out: what would have come of them is not known.
    """

    steps: int
    windows: int  # that have as many steps, or reach an end of the task before
    discounted: ReturnQuality
    undiscounted: ReturnQuality  # of the rows that exist


def imagined_returns(
    found: Evidence,
    steps: int,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ImaginedReturns:
    """Compare the returns of the first `steps` imagined steps, at most the horizon."""
    chosen, ahead = found.complete(steps), found.ahead
    bootstrap = Bootstrap(
        found.episode[chosen], confidence=confidence, resamples=resamples, seed=seed
    )

    def quality(true: Numbers, imagined: Numbers) -> ReturnQuality:
        return return_quality(
            true[chosen, :steps].sum(1), imagined[chosen, :steps].sum(1), bootstrap
        )

    return ImaginedReturns(
        steps=steps,
        windows=int(chosen.sum()),
        discounted=quality(found.discounted, found.discounted_imagined),
        undiscounted=quality(
            found.reward[:, found.context :] * ahead, found.reward_imagined * ahead
        ),
    )


ROWS = ("returns", "true", "predicted", "correlation")


def return_rows(*parts: ImaginedReturns) -> Iterator[tuple[str, str, str, str]]:
    """The columns of `ROWS`, for a table: returns over so many imagined steps."""
    for part in {part.steps: part for part in parts}.values():
        for kind, quality in ((", discounted", part.discounted), ("", part.undiscounted)):
            means = within(quality.true), within(quality.imagined)
            yield f"over {part.steps} steps{kind}", *means, spoken(quality.correlation)
