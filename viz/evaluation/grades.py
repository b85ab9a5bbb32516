"""Grades, and findings: sentences with a grade."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

WELL, ROUGHLY = 0.8, 0.4  # average precision, or R²


class Grade(StrEnum):
    """From the best to the worst."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    BAD = "bad"


MARKS = {Grade.GOOD: "+", Grade.DOUBTFUL: "?", Grade.BAD: "!"}


@dataclass(frozen=True)
class Finding:
    """A sentence about a model, with a grade.

    `problem` names the fault in a few words for the headline. Findings without a problem do not
    affect the grade of the model.
    """

    text: str
    grade: Grade
    problem: str = ""


def worst(grades: Iterable[Grade]) -> Grade:
    """The worst grade; good if there is none."""
    return max(grades, key=list(Grade).index, default=Grade.GOOD)


def better(one: Grade, other: Grade) -> Grade:
    """The better of two grades."""
    return min(one, other, key=list(Grade).index)


def adverb(score: float) -> str:
    """An average precision or an R² in words: well, roughly or badly."""
    return "well" if score >= WELL else "roughly" if score >= ROUGHLY else "badly"


def graded(score: float) -> Grade:
    """The grade of an average precision or an R²; good for NaN."""
    if score < ROUGHLY:
        return Grade.BAD
    return Grade.DOUBTFUL if score < WELL else Grade.GOOD


def count(number: int, noun: str) -> str:
    """A number with its noun: `1 step`, `2 steps`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
