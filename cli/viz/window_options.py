"""What the commands of `wmtk viz` share: their options, and the windows that they look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import human_count
from wmtk.cli.common.options import seed_option

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from wmtk.agent.load import LoadedModel
    from wmtk.datasets import Batch, Dataset
    from wmtk.runs.run_directory import Run
    from wmtk.viz.windows import Window

CONTEXT, HORIZON = 5, 45

RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="The run directory of a trained model.")
]
DataPath = Annotated[Path, typer.Argument(metavar="DATA", help="A dataset of the same task.")]
Context = Annotated[int, typer.Option(min=1, help="Rows that the model sees.")]
Horizon = Annotated[int, typer.Option(min=1, help="Rows that it imagines after these.")]
Samples = Annotated[int, typer.Option(min=1, help="Futures that it imagines of each window.")]
Checkpoint = Annotated[str, typer.Option(help="latest, best, or an update's number.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Seed = Annotated[int, seed_option("Seed of windows, latents and intervals.")]
DrawnFrom = Annotated[
    int | None, typer.Option(min=1, help="Episodes to draw them from, at most.", show_default="all")
]
Out = Annotated[
    Path | None,
    typer.Argument(
        metavar="[OUT]",
        help="The .mp4, .webm, .gif or .png to write.",
        show_default="in the run directory",
    ),
]
Fps = Annotated[float, typer.Option(min=0.1, max=240, help="Steps a second, of a video.")]
ImageKey = Annotated[
    str | None,
    typer.Option("--image", help="The images to show, where there are several.", metavar="KEY"),
]


@dataclass(frozen=True)
class Look:
    """A model, and windows of a dataset to look at it with."""

    model: LoadedModel
    dataset: Dataset
    held_out: str  # which episodes these are, in words
    windows: list[Window]
    context: int
    horizon: int  # shorter than asked for where no episode is long enough

    @property
    def length(self) -> int:
        return self.context + self.horizon

    @property
    def episodes(self) -> int:
        return len({window.episode for window in self.windows})

    def batches(self) -> list[Batch]:
        from wmtk.viz.windows import batches

        return list(batches(self.dataset, self.windows, self.length))

    def describe(self) -> str:
        """The model, the data and the windows, in a sentence."""
        windows = human_count(len(self.windows), "window")
        episodes = human_count(self.episodes, "episode")
        return (
            f"{self.model.run.path} at update {self.model.step:,} on {self.dataset.path}: "
            f"{windows} of {episodes} ({self.held_out}), {self.context} rows seen and "
            f"{self.horizon} imagined."
        )


def require_out(out: Path | None) -> None:
    """Refuse a file that could not be written, before anything takes time."""
    from wmtk.viz.videos.episode_file import ENDINGS
    from wmtk.viz.videos.video_file import require_ending

    if out is not None:
        require_ending(out, ENDINGS)


def out_or_usual(out: Path | None, model: LoadedModel, name: str, *, still: bool) -> Path:
    """Where to write: as asked for, or with the update in its name in the run directory."""
    from wmtk.viz.videos.video_file import usual_ending

    if out is not None:
        return out
    folder, ending = ("images", ".png") if still else ("videos", usual_ending())
    return model.run.path / folder / f"{name}-{model.step:08d}{ending}"


def training_of(run: Run) -> Mapping[str, Any]:
    """What is known of the training of a run's model, which a policy's may have from another."""
    from wmtk.errors import RunError
    from wmtk.runs.run_directory import Run

    if run.kind != "policy":
        return run.about
    try:
        return Run(Path(run.about["model"]["run"])).about
    except RunError:
        return run.about


def data_of(run: Run) -> Path:
    """The dataset that a run learned from: its replay, or one that is still where it was."""
    from wmtk.errors import UsageError

    named = [Path(item["path"]) for item in run.about["data"]]
    beside = [run.path.parent / path.name for path in named]
    for path in (run.path / "replay.zarr", *named, *beside):
        if path.is_dir():
            return path
    raise UsageError(
        f"The data of {run.path} is not at {named[0] if named else 'any place'} any more.",
        "Name a dataset of the same task: --data catch.zarr.",
    )


def open_look(
    run: Path,
    data: Path,
    *,
    context: int,
    horizon: int,
    count: int,
    episodes: int | None = None,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
) -> Look:
    """Load a model and choose `count` windows of episodes that it did not learn from."""
    (look,) = open_looks(
        [(run, checkpoint)],
        data,
        context=context,
        horizon=horizon,
        count=count,
        episodes=episodes,
        seed=seed,
        device=device,
    )
    return look


def open_looks(
    runs: Sequence[tuple[Path, str]],
    data: Path,
    *,
    context: int,
    horizon: int,
    count: int,
    episodes: int | None = None,
    seed: int = 0,
    device: str = "auto",
) -> list[Look]:
    """Load models, by run and checkpoint, and choose windows that none of them learned from."""
    from wmtk.agent.device import choose_device
    from wmtk.agent.load import load
    from wmtk.datasets import Dataset
    from wmtk.viz.windows import choose_windows, common_held_out, held_out

    dataset = Dataset.open(data)
    models = [load(run, checkpoint, choose_device(device)) for run, checkpoint in runs]
    for model in models:
        model.require_fit(dataset)
    held = [held_out(dataset, training_of(model.run), model.run.path) for model in models]
    windows = choose_windows(
        dataset.episodes,
        common_held_out(str(data), held),
        context=context,
        horizon=horizon,
        count=count,
        episodes=episodes,
        seed=seed,
    )
    longest = max(window.rows for window in windows) - context
    return [
        Look(model, dataset, each.note, windows, context, longest)
        for model, each in zip(models, held, strict=True)
    ]
