"""The steps of a player as a tree of branches, each step of which can be continued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from wmtk.agent.outputs import LatentState

MOST_STEPS_KEPT = 2000  # per branch; older ones are dropped
MOST_BRANCHES = 6

Numbers = NDArray[Any]
Observation = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Step:
    """One step: the model state, the action that led to it, predictions and the truth."""

    by: str  # source of the action: start, person, policy, recorded
    action: NDArray[Any] | None  # (S, …), that led here; None at the start
    state: LatentState | None = None  # None if there is no model
    unforced: LatentState | None = None  # without forced codes, if any were forced
    reward: Numbers | None = None  # (S,), predicted
    discount: Numbers | None = None  # (S,)
    value: Numbers | None = None  # (S,), None without a critic
    entropy: Numbers | None = None  # (S,)
    truth: Observation | None = None  # recorded, or from the real environment
    true_reward: float | None = None  # in the model's unit, if there is one
    synced: bool = False  # whether the model observed the truth here

    def row(self, action: str) -> list[Any]:
        """The numbers for plots: one list per curve, with one number per future."""
        numbers = [self.reward, self.discount, self.value, self.entropy]
        curves: list[Any] = [[] if x is None else x for x in numbers]
        return [self.by, action, *curves, self.true_reward, self.synced]


@dataclass
class Branch:
    """Consecutive steps; those before `first` were dropped."""

    number: int
    branch_seed: int  # part of every seed on this branch
    parent: int | None = None
    forked_at: int = 0
    first: int = 0
    steps: list[Step] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The index of the newest step."""
        return self.first + len(self.steps) - 1

    def at(self, step: int) -> Step:
        return self.steps[self.clamp(step) - self.first]

    def clamp(self, step: int) -> int:
        return min(max(step, self.first), self.last)

    def add(self, current: Step) -> None:
        self.steps.append(current)
        if len(self.steps) > MOST_STEPS_KEPT:
            del self.steps[0]
            self.first += 1

    def fork(self, number: int, branch_seed: int, step: int) -> Branch:
        """A branch with the same steps up to `step`, which are shared, not copied."""
        shared = self.steps[: self.clamp(step) - self.first + 1]
        return Branch(number, branch_seed, self.number, self.clamp(step), self.first, shared)

    def describe(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "parent": self.parent,
            "forkedAt": self.forked_at,
            "first": self.first,
            "last": self.last,
        }


class BranchTree:
    """The branches of one player; the oldest is dropped when there are too many."""

    def __init__(self) -> None:
        self.branches: dict[int, Branch] = {}
        self._made = 0

    def begin(self, current: Step) -> Branch:
        self.branches.clear()
        branch = Branch(0, 0)
        branch.add(current)
        self.branches[0] = branch
        self._made = 1
        return branch

    def fork(self, branch: Branch, step: int, *, same_seed: bool) -> Branch:
        """A new branch at `step`. With the same seed, only the actions make a difference."""
        fork = branch.fork(self._made, branch.branch_seed if same_seed else self._made, step)
        self.branches[fork.number] = fork
        self._made += 1
        for number in list(self.branches):
            if len(self.branches) <= MOST_BRANCHES:
                break
            if number not in {fork.number, branch.number}:
                del self.branches[number]
        return fork

    def describe(self) -> list[dict[str, Any]]:
        return [branch.describe() for branch in self.branches.values()]
