"""How a mean return compares with random play, with the data, and with a reward threshold."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from wmtk.scores.episode_records import ReturnSummary

Rank = Literal["better", "no better", "worse"]


@dataclass(frozen=True)
class MeanReturn:
    """A mean return; `low` and `high` bound its interval and are None where there is none."""

    mean: float
    low: float | None = None
    high: float | None = None
    episodes: int | None = None  # None for a published value

    @classmethod
    def of(cls, summary: ReturnSummary) -> MeanReturn:
        return cls(summary.mean, summary.low, summary.high, summary.episodes)


@dataclass(frozen=True)
class Baselines:
    """What a return is measured by; None is unknown."""

    random: MeanReturn | None = None
    data: MeanReturn | None = None  # all episodes that were learned from
    threshold: float | None = None  # `reward_threshold` of gymnasium's spec
    longest: int | None = None  # steps of the data's longest episode


@dataclass(frozen=True)
class ReturnComparison:
    """A mean return beside its baselines, and what follows from them."""

    result: MeanReturn
    baselines: Baselines
    against_random: Rank | None  # None where it cannot be judged
    against_data: Rank | None
    solved: bool | None  # the mean reaches the threshold

    @property
    def judgment(self) -> str:
        """Whether anything was learned, in a few words."""
        if self.result.episodes == 1:
            words = ["one episode is too few to judge"]
        else:
            words = [
                f"{rank} than {name}"
                for rank, name in (
                    (self.against_random, "random play"),
                    (self.against_data, "the data"),
                )
                if rank is not None
            ]
        if self.solved is not None:
            words.append("solved" if self.solved else "not solved")
        return ", ".join(words)

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
        """Everything as plain data, for the results of commands."""
        return {
            **asdict(self),
            "judgment": self.judgment,
            "references": self.references,
            "sentence": self.sentence(subject),
        }

    def sentence(self, subject: str = "Mean return") -> str:
        """The whole comparison on one line."""
        result, facts = self.result, []
        if result.low is not None and result.high is not None:
            facts.append(f"95% interval {_number(result.low)} to {_number(result.high)}")
        if result.episodes is not None:
            facts.append(f"{result.episodes:,} episode{'' if result.episodes == 1 else 's'}")
        line = f"{subject} {_number(result.mean)}" + (f" ({', '.join(facts)})" if facts else "")
        references = self.references or "no baseline is known"
        return f"{line}: {references}{f': {self.judgment}' if self.judgment else ''}."


def compare_return(result: MeanReturn, baselines: Baselines) -> ReturnComparison:
    """Compare a mean return with its baselines.

    It is better or worse than another one if their intervals do not overlap. A single episode has
    no interval and is not ranked.
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
