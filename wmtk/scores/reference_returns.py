"""Compare a mean return with random play, the training data and a reward threshold."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from wmtk.scores.episode_records import ReturnSummary

Rank = Literal["better", "no better", "worse"]


@dataclass(frozen=True)
class MeanReturn:
    """A mean return and its interval, None if unknown."""

    mean: float
    low: float | None = None
    high: float | None = None
    episodes: int | None = None  # None for a published value

    @classmethod
    def of(cls, summary: ReturnSummary) -> MeanReturn:
        return cls(summary.mean, summary.low, summary.high, summary.episodes)


@dataclass(frozen=True)
class Baselines:
    """Reference returns of a task, None where unknown."""

    random: MeanReturn | None = None
    data: MeanReturn | None = None  # all episodes of the training data
    threshold: float | None = None  # `reward_threshold` of Gymnasium's spec
    longest: int | None = None  # steps of the longest episode of the data


@dataclass(frozen=True)
class ReturnComparison:
    """A mean return, its baselines and their ranking."""

    result: MeanReturn
    baselines: Baselines
    against_random: Rank | None  # None if undecidable
    against_data: Rank | None
    solved: bool | None  # the mean reaches the threshold

    @property
    def judgment(self) -> str:
        """The ranking as text: `better than random play, no better than the data, not solved`."""
        if self.result.episodes == 1:
            parts = ["one episode is too few to judge"]
        else:
            parts = [
                f"{rank} than {name}"
                for rank, name in (
                    (self.against_random, "random play"),
                    (self.against_data, "the data"),
                )
                if rank is not None
            ]
        if self.solved is not None:
            parts.append("solved" if self.solved else "not solved")
        return ", ".join(parts)

    @property
    def references(self) -> str:
        """The baselines: `random 22, the data 22, solved at 475`."""
        parts = []
        for name, value in (("random", self.baselines.random), ("the data", self.baselines.data)):
            if value is not None:
                parts.append(f"{name} {_number(value.mean)}")
        if self.baselines.threshold is not None:
            parts.append(f"solved at {_number(self.baselines.threshold)}")
        return ", ".join(parts)

    def to_json(self, subject: str = "Mean return") -> dict[str, Any]:
        """All fields and texts as plain data."""
        return {
            **asdict(self),
            "judgment": self.judgment,
            "references": self.references,
            "sentence": self.sentence(subject),
        }

    def sentence(self, subject: str = "Mean return") -> str:
        """The comparison on one line."""
        result, details = self.result, []
        if result.low is not None and result.high is not None:
            details.append(f"95% interval {_number(result.low)} to {_number(result.high)}")
        if result.episodes is not None:
            details.append(f"{result.episodes:,} episode{'' if result.episodes == 1 else 's'}")
        line = f"{subject} {_number(result.mean)}" + (f" ({', '.join(details)})" if details else "")
        references = self.references or "no baseline is known"
        return f"{line}: {references}{f': {self.judgment}' if self.judgment else ''}."


def compare_return(result: MeanReturn, baselines: Baselines) -> ReturnComparison:
    """Compare a mean return with its baselines.

    A return is better or worse than a baseline if their intervals do not overlap. A single episode
    has no interval and is not ranked.
    """
    threshold = baselines.threshold
    return ReturnComparison(
        result,
        baselines,
        _rank(result, baselines.random),
        _rank(result, baselines.data),
        None if threshold is None else result.mean >= threshold,
    )


def _rank(result: MeanReturn, other: MeanReturn | None) -> Rank | None:
    if other is None or result.low is None or result.high is None:
        return None
    low = other.mean if other.low is None else other.low
    high = other.mean if other.high is None else other.high
    if result.low > high:
        return "better"
    return "worse" if result.high < low else "no better"


def _number(value: float) -> str:
    value = value + 0.0  # no minus sign before a zero
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
