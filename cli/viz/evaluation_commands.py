"""`wmtk viz metrics`, `compare` and `report`: the evaluation of models, with verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmtk.cli.common.console import emit, emit_text, human_bytes, note
from wmtk.cli.common.options import OUTPUT, Checkpoint, Device, Fps, Json
from wmtk.cli.viz.window_options import (
    CONTEXT,
    HORIZON,
    SAMPLES,
    WINDOWS,
    Chart,
    Context,
    DataPath,
    DrawnFrom,
    Horizon,
    RunPath,
    Samples,
    Seed,
    Windows,
    progress_bars,
)
from wmtk.errors import UsageError


def metrics(
    run: RunPath,
    data: DataPath,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: Samples = SAMPLES,
    windows: Windows = WINDOWS,
    episodes: DrawnFrom = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Evaluate the predictions of a world model, with a verdict in words.

    The model observes some rows of windows from held-out episodes, then imagines the next rows with
    the recorded actions. Its predictions are compared with two baselines, the last observed frame
    and the mean frame, and with its reconstructions, which are the best that it can show.
    Intervals are bootstrapped over episodes.

    \b
    Examples:
      wmtk viz metrics runs/catch catch.zarr
      wmtk viz metrics runs/catch catch.zarr --horizon 15 --samples 10
      wmtk viz metrics runs/catch catch.zarr --json > metrics.json
    """
    from wmtk.cli.viz.metric_tables import render
    from wmtk.viz import evaluate

    with progress_bars() as on_progress:
        result = evaluate(
            run,
            data,
            context=context,
            horizon=horizon,
            samples=samples,
            windows=windows,
            episodes=episodes,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
            on_progress=on_progress,
        )
    emit(result, json=json, render=render)


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN... DATA",
            help="Run directories, then the dataset. RUN@N is update N of a run.",
            show_default=False,
        ),
    ],
    chart: Chart = None,
    video: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Video or image file for the predictions of all models.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: Samples = SAMPLES,
    windows: Windows = WINDOWS,
    episodes: DrawnFrom = None,
    shown_episodes: Annotated[
        int,
        typer.Option(
            "--show",
            min=1,
            max=16,
            metavar="N",
            help="Episodes in the video.",
            rich_help_panel=OUTPUT,
        ),
    ] = 3,
    fps: Fps = 8.0,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Compare models on the same windows.

    All models observe and imagine the same rows. Differences are to the first model; their
    intervals are bootstrapped over episodes in pairs, which makes them narrower than those of the
    models themselves. A difference whose interval includes 0 is within noise.

    \b
    Examples:
      wmtk viz compare runs/small runs/large catch.zarr
      wmtk viz compare runs/catch@1000 runs/catch catch.zarr --video learning.mp4
      wmtk viz compare runs/a runs/b runs/c catch.zarr --chart abc.png --json
    """
    from wmtk.cli.viz.metric_tables import render_comparison
    from wmtk.viz import compare

    if len(paths) < 3:
        raise UsageError(
            "A comparison needs two runs or more.", "Pass two runs or more, then the dataset."
        )
    with progress_bars() as on_progress:
        result = compare(
            paths[:-1],
            paths[-1],
            chart=chart,
            video=video,
            context=context,
            horizon=horizon,
            samples=samples,
            windows=windows,
            episodes=episodes,
            shown_episodes=shown_episodes,
            fps=fps,
            seed=seed,
            device=device,
            on_progress=on_progress,
        )
    emit(result, json=json, render=render_comparison)
    if result.not_drawn:
        drawn = len(result.models) - len(result.not_drawn)
        note(f"{video} shows the first {drawn} models, without {', '.join(result.not_drawn)}.")
    for file in result.files:
        size = f"{file.width} × {file.height} pixels, {human_bytes(file.bytes)}"
        note(f"{file.path}: {size}.")


def report(
    run: RunPath,
    data: DataPath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The .html to write.",
            show_default="RUN/report/report.html",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: Samples = SAMPLES,
    windows: Windows = WINDOWS,
    episodes: DrawnFrom = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Write the evaluation of a model into one HTML file, with a verdict in words.

    The file has videos, curves, rewards and ends, codes and their effects, the dataset, settings
    and definitions. It opens in any browser without a network.

    \b
    Examples:
      wmtk viz report runs/catch catch.zarr
      wmtk viz report runs/catch catch.zarr --out catch.html --windows 100
    """
    from wmtk.viz import report

    with progress_bars() as on_progress:
        result = report(
            run,
            data,
            out,
            context=context,
            horizon=horizon,
            samples=samples,
            windows=windows,
            episodes=episodes,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
            on_progress=on_progress,
        )
    text = f"{result.path}: {result.verdict.headline} {human_bytes(result.bytes)}."
    emit_text(result, text, json=json)
