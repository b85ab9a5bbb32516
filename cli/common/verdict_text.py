"""The verdict on a model on a terminal, and the short one at the end of `wmtk train-model`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from wmtk.cli.common.console import note
from wmtk.errors import WmtkError

if TYPE_CHECKING:
    from wmtk.runs.run_directory import Run
    from wmtk.viz.evaluation.grades import Grade
    from wmtk.viz.evaluation.verdict import Verdict

STYLES = {"good": "green", "doubtful": "yellow", "bad": "bold red"}
WINDOWS, SAMPLES = 24, 3  # of the short verdict, which take 2 s with the preset tiny


def verdict_text(verdict: Verdict, *, all_findings: bool = True) -> Iterator[Text]:
    """The headline and a line for each finding, or for those that are not good."""
    yield Text(verdict.headline, STYLES[verdict.grade])
    for finding in verdict.findings:
        if all_findings or finding.grade != "good":
            yield Text.assemble(_mark(finding.grade), " ", finding.text)


def _mark(grade: Grade) -> tuple[str, str]:
    from wmtk.viz.evaluation.grades import MARKS

    return MARKS[grade], STYLES[grade]


@dataclass(frozen=True)
class ShortVerdict:
    """The verdict on a few windows, over the imagination horizon of a policy."""

    verdict: Verdict
    description: str  # of the model, the data and the windows
    command: str  # for a report with all metrics


def short_verdict(run: Run, policy_horizon: int, device: str) -> ShortVerdict | None:
    """The verdict on windows of the run's first dataset; None, with a note, if there is none."""
    from wmtk.viz import evaluate
    from wmtk.viz.windows import training_data

    try:
        data = training_data(run)
        result = evaluate(
            run.path,
            data,
            horizon=policy_horizon,
            windows=WINDOWS,
            samples=SAMPLES,
            factors=False,
            device=device,
        )
    except WmtkError as error:
        note(f"No verdict on the model: {error.message}")
        return None
    command = shlex.join(["wmtk", "viz", "report", str(run.path), str(data)])
    return ShortVerdict(result.verdict, result.description, command)


def short_verdict_text(short: ShortVerdict) -> Iterator[Text]:
    """The headline, and the findings that are not good."""
    yield Text(f"\n{short.description}", style="dim")
    yield from verdict_text(short.verdict, all_findings=False)
    # On one line, to be copied.
    yield Text(f"Full report: {short.command}", no_wrap=True, overflow="ignore")
