"""What has been dreamt: lines of moments, each of them a place to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from wmtk.agent.outputs import LatentState

KEPT = 2000  # moments of a line; older ones are forgotten
MOST_LINES = 6

Numbers = NDArray[Any]
Observation = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Step:
    """A step of a line: where the model is, how it came there, and what is true instead."""

    by: str  # who chose the action: start, person, policy, recorded
    action: NDArray[Any] | None  # (S, …), that led here; None at the start
    mind: LatentState | None = None  # None if there is no model
    free: LatentState | None = None  # the same without what a person forced, if anything was
    reward: Numbers | None = None  # (S,), expected by the model
    discount: Numbers | None = None  # (S,)
    value: Numbers | None = None  # (S,), None without a critic
    entropy: Numbers | None = None  # (S,)
    truth: Observation | None = None  # what was recorded, or what the real environment shows
    true_reward: float | None = None  # in the model's unit, if there is one
    synced: bool = False  # the model has seen the truth here

    def row(self, action: str) -> list[Any]:
        """The numbers that plots show: a list for each of them, with a number per future."""
        numbers = [self.reward, self.discount, self.value, self.entropy]
        shown: list[Any] = [[] if x is None else x for x in numbers]
        return [self.by, action, *shown, self.true_reward, self.synced]


@dataclass
class Branch:
    """Moments in a row; those before `first` are forgotten."""

    number: int
    dice: int  # part of every seed of this line
    parent: int | None = None
    forked_at: int = 0
    first: int = 0
    moments: list[Step] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The number of its newest step."""
        return self.first + len(self.moments) - 1

    def at(self, step: int) -> Step:
        return self.moments[self.clamp(step) - self.first]

    def clamp(self, step: int) -> int:
        return min(max(step, self.first), self.last)

    def add(self, moment: Step) -> None:
        self.moments.append(moment)
        if len(self.moments) > KEPT:
            del self.moments[0]
            self.first += 1

    def fork(self, number: int, dice: int, step: int) -> Branch:
        """A line with the same past up to a step; the moments are shared, not copied."""
        kept = self.moments[: self.clamp(step) - self.first + 1]
        return Branch(number, dice, self.number, self.clamp(step), self.first, kept)

    def describe(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "parent": self.parent,
            "forkedAt": self.forked_at,
            "first": self.first,
            "last": self.last,
        }


class BranchTree:
    """The lines of one play, the oldest of which goes when there are too many."""

    def __init__(self) -> None:
        self.lines: dict[int, Branch] = {}
        self._made = 0

    def begin(self, moment: Step) -> Branch:
        self.lines.clear()
        line = Branch(0, 0)
        line.add(moment)
        self.lines[0] = line
        self._made = 1
        return line

    def fork(self, line: Branch, step: int, *, same_dice: bool) -> Branch:
        """A new line from a step on; with the same dice, only other actions make a difference."""
        made = line.fork(self._made, line.dice if same_dice else self._made, step)
        self.lines[made.number] = made
        self._made += 1
        for number in list(self.lines):
            if len(self.lines) <= MOST_LINES:
                break
            if number not in {made.number, line.number}:
                del self.lines[number]
        return made

    def describe(self) -> list[dict[str, Any]]:
        return [line.describe() for line in self.lines.values()]
