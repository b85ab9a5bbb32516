"""`wmtk.viz.compare`: several models on the same windows, with paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wmtk.errors import UsageError
from wmtk.reprs import brief_repr
from wmtk.viz.draw.rollout_panels import MOST_MODELS, choose_image
from wmtk.viz.evaluation.differences import Difference, compute_differences
from wmtk.viz.evaluation.measurements import SAMPLES, measure
from wmtk.viz.evaluation.model_metrics import ModelMetrics, compute_metrics
from wmtk.viz.evaluation.verdict import Verdict, verdict
from wmtk.viz.output_files import (
    chart_path,
    no_progress,
    output_path,
    write_drawing,
    write_still,
)
from wmtk.viz.rollouts import open_loop_rollouts, side_by_side
from wmtk.viz.sheets.rollout_sheet import rollout_sheet
from wmtk.viz.videos.rollout_video import rollout_frames
from wmtk.viz.videos.video_file import Written
from wmtk.viz.windows import (
    CONTEXT,
    HORIZON,
    WINDOWS,
    DatasetLike,
    ModelWindows,
    OnProgress,
    open_common_windows,
    open_model,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wmtk.agent.load import LoadedModel


@dataclass(frozen=True)
class ComparedModel:
    """One model of a comparison."""

    name: str
    run: Path
    update: int
    checkpoint: str  # hash of the weights
    reliable_steps: int  # the last step up to which predictions are reliable
    steps_above_baselines: int
    verdict: Verdict
    metrics: ModelMetrics = field(repr=False)


@dataclass(frozen=True)
class ModelComparison:
    """Metrics of several models on the same windows, and the differences to the first model."""

    dataset: Path
    held_out: list[str]  # for each model, description of the episodes
    windows: int
    episodes: int
    context: int
    horizon: int
    samples: int
    seed: int
    models: list[ComparedModel]
    differences: list[Difference]
    files: list[Written] = field(repr=False)  # chart and video, if they were requested
    not_drawn: list[str] = field(repr=False)  # models beyond those that a video shows

    __repr__ = brief_repr

    def figure(self) -> Figure:
        """Curves of all models over the imagined steps, with the baselines."""
        from wmtk.viz.plots.quality_chart import quality_figure

        names = [model.name for model in self.models]
        caption = (
            f"{self.dataset.name}: {self.windows} windows of {self.episodes} episodes "
            f"({self.held_out[0]}); bands are 95% intervals over episodes."
        )
        qualities = [model.metrics.obs for model in self.models]
        return quality_figure(names, qualities, title=" and ".join(names), caption=caption)


def compare(
    runs: Sequence[str | Path | LoadedModel],
    dataset: DatasetLike,
    *,
    chart: str | Path | None = None,
    video: str | Path | None = None,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    samples: int = SAMPLES,
    windows: int = WINDOWS,
    episodes: int | None = None,
    shown_episodes: int = 3,
    fps: float = 8.0,
    seed: int = 0,
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> ModelComparison:
    """Evaluate models on the same windows, and compute differences to the first one.

    All models observe and imagine the same rows. Intervals of differences are bootstrapped over
    episodes in pairs, which makes them narrower than those of the models themselves.

    Args:
        runs: Run directories or loaded models; `"runs/catch@1000"` is update 1000 of a run.
        dataset: A dataset of the same task, or its path.
        chart: A `.png`, `.svg` or `.pdf` for the curves of all models; None writes none.
        video: Video or image file for open-loop predictions of all models; None writes none.
        context: Rows of each window that the models observe.
        horizon: Rows that they imagine; fewer if no episode is long enough.
        samples: Futures imagined of each window.
        windows: Number of windows.
        episodes: Episodes to take them from at most; None for all.
        shown_episodes: Episodes in the video.
        fps: Steps per second in the video.
        seed: Seed of windows, latents and intervals.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        The verdict on each model, and the differences of all metrics with their intervals.

    Example:
        >>> result = wmtk.viz.compare([f"{run}@1", run], data, horizon=6, windows=4, samples=2)
        >>> [model.name for model in result.models]
        ['run@1', 'run@2']
        >>> len(result.differences[0].differences)  # to the first model
        1
    """
    if len(runs) < 2:
        raise UsageError("A comparison needs two models or more.", "Pass two runs or more.")
    chart, video = chart_path(chart), output_path(video)
    models = [_open(run, device) for run in runs]
    opened = open_common_windows(
        models,
        dataset,
        context=context,
        horizon=horizon,
        count=windows,
        episodes=episodes,
        seed=seed,
    )
    names = unique_names(models)
    measurements = []
    for name, each in zip(names, opened, strict=True):
        description = f"Predicting windows with {name}"
        measurements.append(
            measure(
                each.model,
                each.batches(),
                context=context,
                samples=samples,
                seed=seed,
                on_window=lambda done, total, text=description: on_progress(text, done, total),  # type: ignore[misc]
            )
        )
    metrics = [compute_metrics(each, seed=seed, factors=False) for each in measurements]
    first = opened[0]
    result = ModelComparison(
        dataset=first.dataset.path,
        held_out=[each.held_out for each in opened],
        windows=len(first.windows),
        episodes=first.episodes,
        context=context,
        horizon=first.horizon,
        samples=samples,
        seed=seed,
        models=[
            ComparedModel(
                name=name,
                run=model.run.path,
                update=model.step,
                checkpoint=model.hash,
                reliable_steps=result.reliable_steps,
                steps_above_baselines=result.steps_above_baselines,
                verdict=verdict(result),
                metrics=result,
            )
            for name, model, result in zip(names, models, metrics, strict=True)
        ],
        differences=compute_differences(measurements, seed=seed),
        files=[],
        not_drawn=names[MOST_MODELS:] if video is not None else [],
    )
    if chart is not None:
        result.files.append(write_still(chart, result.figure()))
    if video is not None:
        result.files.append(
            _draw_video(video, names, opened, shown_episodes, fps, seed, on_progress)
        )
    return result


def _open(run: str | Path | LoadedModel, device: str) -> LoadedModel:
    """Load `runs/catch@1000` as update 1000 of runs/catch, unless there is such a folder."""
    if not isinstance(run, str | Path) or Path(run).exists():
        return open_model(run, "latest", device)
    folder, at, checkpoint = str(run).rpartition("@")
    return open_model(folder, checkpoint, device) if at else open_model(run, "latest", device)


def unique_names(models: Sequence[LoadedModel]) -> list[str]:
    """Names of models: their folders, with the update or a number where these are equal."""
    names = [model.run.path.resolve().name for model in models]
    if len(set(names)) < len(names):
        names = [f"{name}@{model.step}" for name, model in zip(names, models, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    return names


def _draw_video(
    path: Path,
    names: list[str],
    opened: Sequence[ModelWindows],
    episodes: int,
    fps: float,
    seed: int,
    on_progress: OnProgress,
) -> Written:
    """Draw the open-loop predictions of all models on the same windows below each other."""
    names, opened = names[:MOST_MODELS], opened[:MOST_MODELS]
    first = opened[0]
    batch = first.one_per_episode(episodes)
    predicted = [
        open_loop_rollouts(each.model, batch, context=each.context, seed=seed) for each in opened
    ]
    rollouts = [side_by_side(group, names) for group in zip(*predicted, strict=True)]
    image = choose_image(dict(first.model.schema.obs), None)
    title = " and ".join(names)
    total = max(rollout.rows for rollout in rollouts)
    return write_drawing(
        path,
        lambda: rollout_sheet(rollouts, image, title=title),
        lambda: rollout_frames(rollouts, image, title=title),
        fps,
        lambda done: on_progress(f"Drawing {path.name}", done, total),
    )
