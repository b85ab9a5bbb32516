"""`wmtk viz metrics`: the numbers, and a verdict in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit, err, progress
from wmtk.cli.common.options import Json
from wmtk.cli.viz.window_options import (
    CONTEXT,
    HORIZON,
    Checkpoint,
    Context,
    DataPath,
    Device,
    Horizon,
    RunPath,
    Samples,
    Seed,
    open_look,
)

if TYPE_CHECKING:
    from wmtk.viz.evaluation.model_metrics import ModelMetrics
    from wmtk.viz.evaluation.verdict import Verdict


@dataclass(frozen=True)
class MetricsReport:
    run: Path
    update: int
    checkpoint: str  # the hash of the weights
    dataset: Path
    version: int  # of the dataset
    held_out: str
    seed: int
    description: str
    verdict: Verdict
    definitions: dict[str, str]
    metrics: ModelMetrics


def metrics(
    run: RunPath,
    data: DataPath,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: Samples = 5,
    windows: Annotated[int, typer.Option(min=1, help="Windows to look at, in all.")] = 50,
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Episodes to draw them from, at most.", show_default="all"),
    ] = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Measure how well a model predicts, and say so in words.

    It is shown windows of episodes that were held out of its training: it sees some rows, then
    imagines the next ones with the recorded actions. Beside its predictions stand two guesses,
    repeating the last frame that was seen and showing the average frame, and what it shows after
    seeing each frame itself, which is the best that it could do. Intervals are bootstrapped over
    episodes.

    \b
    Examples:
      wmtk viz metrics runs/catch catch.zarr
      wmtk viz metrics runs/catch catch.zarr --horizon 15 --samples 10
      wmtk viz metrics runs/catch catch.zarr --json > metrics.json
    """
    from wmtk.cli.viz.metric_tables import render
    from wmtk.viz.evaluation.measurements import measure
    from wmtk.viz.evaluation.model_metrics import DEFINITIONS, compute_metrics
    from wmtk.viz.evaluation.verdict import verdict

    look = open_look(
        run,
        data,
        context=context,
        horizon=horizon,
        count=windows,
        episodes=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    with progress("Looking", len(look.windows), noun="window") as bar:
        evidence = measure(
            look.model,
            look.batches(),
            context=context,
            samples=samples,
            seed=seed,
            on_window=lambda done, total: bar.update(completed=done, total=total),
        )
    found = compute_metrics(evidence, seed=seed, on_part=_say)
    report = MetricsReport(
        run=run,
        update=look.model.step,
        checkpoint=look.model.hash,
        dataset=data,
        version=look.dataset.version,
        held_out=look.held_out,
        seed=seed,
        description=look.describe(),
        verdict=verdict(found),
        definitions=DEFINITIONS,
        metrics=found,
    )
    emit(report, json=json, render=render)


def _say(part: str) -> None:
    if err.is_terminal:
        err.print(f"Computing metrics of {part}")
