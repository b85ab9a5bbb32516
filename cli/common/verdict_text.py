"""A verdict on a terminal: its headline and its findings, each with a mark in its color."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from wmtk.viz.evaluation.grades import Grade
    from wmtk.viz.evaluation.verdict import Verdict

STYLES = {"good": "green", "doubtful": "yellow", "bad": "bold red"}


def verdict_text(verdict: Verdict, *, good_ones: bool = True) -> Iterator[Text]:
    """A line for the whole model and one for each finding, or for those that are not good."""
    yield Text(verdict.headline, STYLES[verdict.grade])
    for finding in verdict.findings:
        if good_ones or finding.grade != "good":
            yield Text.assemble(_mark(finding.grade), " ", finding.text)


def _mark(grade: Grade) -> tuple[str, str]:
    from wmtk.viz.evaluation.grades import MARKS

    return MARKS[grade], STYLES[grade]
