"""`wmtk viz compare`: several models on the same windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit, err, human_bytes, progress
from wmtk.cli.common.options import Json
from wmtk.cli.viz.window_options import (
    CONTEXT,
    HORIZON,
    Context,
    Device,
    DrawnFrom,
    Fps,
    Horizon,
    Look,
    Samples,
    Seed,
    open_looks,
)
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.viz.evaluation.differences import Difference
    from wmtk.viz.evaluation.measurements import Measurements
    from wmtk.viz.evaluation.obs_quality import ObsQuality
    from wmtk.viz.evaluation.verdict import Verdict
    from wmtk.viz.videos.video_file import Written


@dataclass(frozen=True)
class Compared:
    """One of the models."""

    name: str
    run: Path
    update: int
    checkpoint: str  # the hash of the weights
    reliable_steps: int  # steps up to which predictions are reliable
    steps_above_baselines: int  # steps up to which they are better than the baselines
    verdict: Verdict


@dataclass(frozen=True)
class CompareReport:
    dataset: Path
    held_out: list[str]
    windows: int
    episodes: int
    context: int
    horizon: int
    samples: int
    seed: int
    models: list[Compared]
    differences: list[Difference]


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN... DATA",
            help="Run directories, then the dataset. RUN@N is update N of a run.",
            show_default=False,
        ),
    ],
    chart: Annotated[
        Path | None, typer.Option(help="Draw the curves of all models.", metavar="F.png")
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option(help="Show what they imagine: .mp4, .webm, .gif or .png.", metavar="F.mp4"),
    ] = None,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: Samples = 5,
    windows: Annotated[int, typer.Option(min=1, help="Windows to look at, in all.")] = 50,
    episodes: DrawnFrom = None,
    shown: Annotated[
        int, typer.Option("--show", min=1, max=16, help="Episodes to show in the video.")
    ] = 3,
    fps: Fps = 8.0,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Compare models on the same windows, and tell differences from noise.

    Every model sees the same rows and imagines the same ones. Differences are to the first model;
    their intervals are bootstrapped over episodes, in pairs, so that they are narrower than those
    of the models themselves. A difference whose interval leaves out 0 is beyond noise.

    \b
    Examples:
      wmtk viz compare runs/small runs/large catch.zarr
      wmtk viz compare runs/catch@1000 runs/catch catch.zarr --video learning.mp4
      wmtk viz compare runs/a runs/b runs/c catch.zarr --chart abc.png --json
    """
    from wmtk.viz.evaluation.differences import compute_differences as differences_of
    from wmtk.viz.evaluation.measurements import measure
    from wmtk.viz.evaluation.model_metrics import compute_metrics
    from wmtk.viz.evaluation.verdict import verdict
    from wmtk.viz.videos.episode_file import ENDINGS
    from wmtk.viz.videos.video_file import require_ending

    if len(paths) < 3:
        raise UsageError("There is nothing to compare.", "Give two runs or more, then the dataset.")
    if chart is not None:
        from wmtk.viz.plots.figures import FIGURE_ENDINGS

        require_ending(chart, FIGURE_ENDINGS)
    if video is not None:
        require_ending(video, ENDINGS)
    runs = [run_and_checkpoint(path) for path in paths[:-1]]
    looks = open_looks(
        runs,
        paths[-1],
        context=context,
        horizon=horizon,
        count=windows,
        episodes=episodes,
        seed=seed,
        device=device,
    )
    names = unique_names(looks)
    found: list[Measurements] = []
    for name, look in zip(names, looks, strict=True):
        with progress(name, len(look.windows), noun="window") as bar:
            found.append(
                measure(
                    look.model,
                    look.batches(),
                    context=context,
                    samples=samples,
                    seed=seed,
                    on_window=lambda done, total, bar=bar: bar.update(completed=done, total=total),  # type: ignore[misc]
                )
            )
    evaluations = [compute_metrics(evidence, seed=seed, factors=False) for evidence in found]
    report = CompareReport(
        dataset=paths[-1],
        held_out=[look.held_out for look in looks],
        windows=len(looks[0].windows),
        episodes=looks[0].episodes,
        context=context,
        horizon=looks[0].horizon,
        samples=samples,
        seed=seed,
        models=[
            Compared(
                name,
                run,
                look.model.step,
                look.model.hash,
                evaluation.reliable_steps,
                evaluation.steps_above_baselines,
                verdict(evaluation),
            )
            for name, (run, _), look, evaluation in zip(
                names, runs, looks, evaluations, strict=True
            )
        ],
        differences=differences_of(found, seed=seed),
    )
    emit(report, json=json, render=_render)
    if chart is not None:
        _draw_chart(chart, names, [evaluation.obs for evaluation in evaluations], report)
    if video is not None:
        _draw_video(video, names, looks, shown, fps, seed)


def run_and_checkpoint(path: Path) -> tuple[Path, str]:
    """`runs/catch@1000` is update 1000 of runs/catch, unless there is such a folder."""
    run, at, which = str(path).rpartition("@")
    if not at or path.exists():
        return path, "latest"
    return Path(run), which


def unique_names(looks: Sequence[Look]) -> list[str]:
    """What the models are called: their folders, with the update or a number if need be."""
    names = [look.model.run.path.resolve().name for look in looks]
    if len(set(names)) < len(names):
        names = [f"{name}@{look.model.step}" for name, look in zip(names, looks, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names


def _render(report: CompareReport) -> RenderableType:
    import numpy as np
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from wmtk.cli.common.verdict_text import verdict_text
    from wmtk.viz.interval_text import format_margin

    verdicts: list[Text] = []
    for model in report.models:
        headline, *findings = verdict_text(model.verdict)
        verdicts += [Text.assemble((model.name, "bold"), ": ", headline), *findings, Text()]
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("", no_wrap=True)
    for model in report.models:
        table.add_column(Text(model.name), justify="right", overflow="fold")
    for model in report.models[1:]:
        named = f" of {model.name}" if len(report.models) > 2 else ""
        table.add_column(Text(f"difference{named}"), justify="right", overflow="fold")
        table.add_column("")
    empty = [""] * (2 * len(report.models) - 2)
    table.add_row("reliable steps", *(str(model.reliable_steps) for model in report.models), *empty)
    table.add_row(
        "better than the baselines",
        *(str(model.steps_above_baselines) for model in report.models),
        *empty,
    )
    styles = {"better": "green", "worse": "bold red", "different": "yellow"}
    for row in report.differences:
        cells: list[str | Text] = [
            "-" if np.isnan(value) else f"{value:.3g}" for value in row.values
        ]
        for number, gap in enumerate(row.differences):
            says = row.outcome(number)
            cells += [format_margin(gap), Text(says, style=styles.get(says, "dim"))]
        table.add_row(Text(row.name), *cells)
    first = report.models[0].name
    notes = [
        f"{report.windows} windows of {report.episodes} episodes ({report.held_out[0]}), "
        f"{report.context} rows seen and {report.horizon} imagined, {report.samples} futures, "
        f"seed {report.seed}.",
        f"Differences are to {first}; ± is half of the 95% interval, a bootstrap over episodes in "
        "pairs. All numbers are means over the steps.",
        "reliable steps: more than half of what varies is surely right; the baselines are the last "
        "observation and the average one.",
        "reward: average precision of events within 1 step or, where rewards are dense, R²; ends: "
        "average precision.",
    ]
    return Group(*verdicts, table, "", *(Text(note, style="dim") for note in notes))


def _draw_chart(
    path: Path, names: list[str], qualities: list[dict[str, ObsQuality]], report: CompareReport
) -> None:
    from wmtk.viz.plots.figures import save_figure
    from wmtk.viz.plots.quality_chart import quality_figure

    caption = (
        f"{report.dataset.name}: {report.windows} windows of {report.episodes} episodes "
        f"({report.held_out[0]}); bands are 95% intervals over episodes."
    )
    figure = quality_figure(names, qualities, title=" and ".join(names), caption=caption)
    _tell(save_figure(figure, path))


def _draw_video(
    path: Path, names: list[str], looks: list[Look], episodes: int, fps: float, seed: int
) -> None:
    """The same windows as each model imagines them, below each other."""
    from wmtk.viz.draw.rollout_panels import MOST_MODELS, choose_image
    from wmtk.viz.rollouts import open_loop_rollouts, side_by_side
    from wmtk.viz.sheets.rollout_sheet import rollout_sheet
    from wmtk.viz.videos.rollout_video import rollout_frames
    from wmtk.viz.videos.video_file import IMAGE_ENDINGS, write_image, write_video
    from wmtk.viz.windows import read_windows

    if len(looks) > MOST_MODELS:
        left_out = ", ".join(names[MOST_MODELS:])
        err.print(f"{path} shows the first {MOST_MODELS} models, without {left_out}.")
    names, looks = names[:MOST_MODELS], looks[:MOST_MODELS]
    first = looks[0]
    chosen = list({window.episode: window for window in first.windows}.values())[:episodes]
    batch = read_windows(first.dataset, chosen, first.length)
    shown = [
        open_loop_rollouts(look.model, batch, context=look.context, seed=seed) for look in looks
    ]
    rollouts = [side_by_side(group, names) for group in zip(*shown, strict=True)]
    image = choose_image(dict(first.model.schema.obs), None)
    title = " and ".join(names)
    if path.suffix.lower() in IMAGE_ENDINGS:
        written = write_image(path, rollout_sheet(rollouts, image, title=title))
    else:
        written = write_video(path, rollout_frames(rollouts, image, title=title), fps)
    _tell(written)


def _tell(written: Written) -> None:
    size = f"{written.width} × {written.height} pixels, {human_bytes(written.bytes)}"
    err.print(f"{written.path}: {size}.", soft_wrap=True)
