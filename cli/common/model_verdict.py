"""The end of `wmtk train-model`: a short verdict on the model that was trained."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from wmtk.cli.common.console import note
from wmtk.cli.common.verdict_text import verdict_text
from wmtk.cli.viz.window_options import CONTEXT, data_of, open_look
from wmtk.errors import WmtkError

if TYPE_CHECKING:
    from wmtk.runs.run_directory import Run
    from wmtk.viz.evaluation.verdict import Verdict

WINDOWS, SAMPLES = 24, 3  # which take a second or two at the size of the preset tiny


@dataclass(frozen=True)
class ShortVerdict:
    """What `wmtk viz metrics` says of few windows, over the steps that a policy imagines."""

    verdict: Verdict
    description: str  # the model, the data and the windows
    command: str  # for all metrics, on more and longer windows


def short_verdict(run: Run, policy_horizon: int, device: str) -> ShortVerdict | None:
    """A verdict on windows of the first dataset, or None, with a line that says why."""
    from wmtk.viz.evaluation.measurements import measure
    from wmtk.viz.evaluation.model_metrics import compute_metrics
    from wmtk.viz.evaluation.verdict import verdict

    try:
        data = data_of(run)
        look = open_look(
            run.path, data, context=CONTEXT, horizon=policy_horizon, count=WINDOWS, device=device
        )
        evidence = measure(look.model, look.batches(), context=CONTEXT, samples=SAMPLES)
        found = compute_metrics(evidence, factors=False)
    except WmtkError as error:
        note(f"No verdict on the model: {error.message}")
        return None
    command = shlex.join(["wmtk", "viz", "report", str(run.path), str(data)])
    return ShortVerdict(verdict(found), look.describe(), command)


def short_verdict_text(short: ShortVerdict) -> Iterator[Text]:
    """The headline and what is not good."""
    yield Text(f"\n{short.description}", style="dim")
    yield from verdict_text(short.verdict, good_ones=False)
    # On one line, to be copied.
    yield Text(f"The whole report: {short.command}", no_wrap=True, overflow="ignore")
