"""Held-out windows of recorded episodes, and models opened together with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Batch, Dataset, EpisodeTable, split
from wmtk.errors import RunError, UsageError

if TYPE_CHECKING:  # the live page collects episodes without torch
    from wmtk.agent.load import LoadedModel
    from wmtk.runs.run_directory import Run

DatasetLike = str | Path | Dataset
OnProgress = Callable[[str, int, int], None]  # description, done, total

CONTEXT, HORIZON = 5, 45
WINDOWS = 50
AT_ONCE = 2  # windows in a batch: few, to save memory and to leave time for the live page
DEFAULT_FRACTION = 0.1  # of episodes, which training holds out by default


@dataclass(frozen=True)
class Window:
    """Consecutive rows of one episode."""

    episode: int  # index in the dataset
    start: int
    rows: int  # fewer than requested if the episode is short


def choose_windows(
    table: EpisodeTable,
    candidates: NDArray[np.bool_],
    *,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    count: int = WINDOWS,
    episodes: int | None = None,
    seed: int = 0,
) -> list[Window]:
    """Choose about `count` windows of `context` + `horizon` rows, spread over episodes and time.

    At most `episodes` of the candidates (one flag per episode) are drawn. As in training, a start
    is drawn uniformly and moved so that the window ends with the episode if it would not fit, so
    that ends of episodes are frequent. Shorter episodes are used whole; episodes without a row
    after the context are left out.
    """
    if context < 1 or horizon < 1:
        raise UsageError(
            f"A window cannot have a context of {context} and a horizon of {horizon}.",
            "Use at least 1 for both.",
        )
    long_enough = np.flatnonzero(candidates & (table.length + 1 > context))
    if not len(long_enough):
        raise UsageError(
            f"No episode has more than {context} rows: nothing is left to predict.",
            "Use a shorter context, or a dataset with longer episodes.",
        )
    rng = np.random.default_rng(seed)
    most = min(len(long_enough), count, count if episodes is None else episodes)
    drawn = np.sort(rng.permutation(long_enough)[:most])
    windows = []
    for number, episode in enumerate(drawn.tolist()):
        share = count // most + (number < count % most)
        rows = int(table.length[episode]) + 1
        taken = min(rows, context + horizon)
        # One start in each of `share` equal parts, so that the windows of an episode differ.
        at = (np.arange(share) + rng.random(share)) / share * rows
        starts = np.unique(np.minimum(at.astype(np.int64), rows - taken))
        windows += [Window(episode, start, taken) for start in starts.tolist()]
    return windows


def read_windows(dataset: Dataset, windows: Sequence[Window], length: int) -> Batch:
    """The first rows of windows as a batch (N, length, …), padded with zeros."""
    N, table = len(windows), dataset.episodes
    arrays: dict[str, NDArray[Any]] = {
        path: np.zeros((N, length, *spec.shape), spec.dtype)
        for path, spec in dataset.schema.arrays()
    }
    for number, window in enumerate(windows):
        entry = table.parts[table.part[window.episode]]
        first = int(table.start[window.episode]) + window.start
        reader = dataset.open_part(entry)
        with dataset.reading(entry):
            for path, array in arrays.items():
                rows = min(window.rows, length)
                array[number, :rows] = reader.rows(path, first, first + rows)
    starts = np.array([window.start for window in windows])
    existing = np.array([window.rows for window in windows])
    steps = np.arange(length)

    def group(prefix: str) -> dict[str, NDArray[Any]]:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    return Batch(
        obs=group("obs/"),
        action=arrays["action"],
        reward=arrays["reward"].astype(np.float32),
        terminated=arrays["terminated"],
        truncated=arrays["truncated"],
        is_first=(starts[:, None] + steps) == 0,
        mask=steps < existing[:, None],
        info=group("info/"),
        source=np.zeros(N, np.int64),
        episode=np.array([window.episode for window in windows]),
        start=starts,
        step=0,
        versions=(dataset.version,),
    )


def batches(
    dataset: Dataset, windows: Sequence[Window], length: int, size: int = AT_ONCE
) -> Iterator[Batch]:
    """Read windows in batches of `size`."""
    for first in range(0, len(windows), size):
        yield read_windows(dataset, windows[first : first + size], length)


@dataclass(frozen=True)
class HeldOut:
    """The episodes of a dataset on which a model is evaluated."""

    episodes: NDArray[np.bool_]  # a flag for each episode of the dataset
    note: str  # description of the choice


def held_out(dataset: Dataset, about: Mapping[str, Any], folder: Path | None = None) -> HeldOut:
    """The episodes that a run held out of training, or all if it was trained on other datasets.

    `about` contains the datasets and the held-out fraction of the run in `folder`. A dataset inside
    of the run directory is the replay of an online run, from which nothing is held out.
    """
    table = dataset.episodes
    every = np.ones(len(table), bool)
    if folder is not None and dataset.path.resolve().parent == folder.resolve():
        return HeldOut(every, "all episodes: the agent was trained on them")
    if dataset.id not in {item["id"] for item in about.get("data", [])}:
        return HeldOut(every, "all episodes: the model was not trained on this dataset")
    fraction = float(about.get("val_fraction", DEFAULT_FRACTION))
    if not fraction:
        return HeldOut(every, "all episodes: the model was trained on them, none was held out")
    return HeldOut(split(fraction, held_out=True)(table), "episodes held out of training")


def common_held_out(name: str, groups: Sequence[HeldOut]) -> NDArray[np.bool_]:
    """Flags of the episodes that all models held out; raises UsageError if there are none."""
    common = np.logical_and.reduce([each.episodes for each in groups])
    if not common.any():
        raise UsageError(
            f"{name} has no held-out episode: training used all of them.",
            "Pass another dataset of the same task.",
        )
    return np.asarray(common)


class MissingDataError(UsageError):
    """The dataset that a run was trained on is no longer at its path."""


@dataclass(frozen=True)
class ModelWindows:
    """A model, and windows of a dataset on which it is evaluated."""

    model: LoadedModel
    dataset: Dataset
    held_out: str  # description of the episodes
    windows: list[Window]
    context: int
    horizon: int  # shorter than requested if no episode is long enough

    @property
    def length(self) -> int:
        return self.context + self.horizon

    @property
    def episodes(self) -> int:
        """The number of episodes that the windows are from."""
        return len({window.episode for window in self.windows})

    def batches(self) -> list[Batch]:
        return list(batches(self.dataset, self.windows, self.length))

    def one_per_episode(self, episodes: int) -> Batch:
        """The last window of each of at most `episodes` episodes."""
        last = {window.episode: window for window in self.windows}
        return read_windows(self.dataset, list(last.values())[:episodes], self.length)

    @property
    def description(self) -> str:
        """The model, the dataset and the windows in a sentence."""
        windows, episodes = len(self.windows), self.episodes
        return (
            f"{self.model.run.path} at update {self.model.step:,} on {self.dataset.path}: "
            f"{windows:,} window{'s' * (windows != 1)} of {episodes:,} "
            f"episode{'s' * (episodes != 1)} ({self.held_out}), {self.context} rows observed and "
            f"{self.horizon} imagined."
        )


def open_windows(
    run: str | Path | LoadedModel,
    dataset: DatasetLike,
    *,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    count: int = WINDOWS,
    episodes: int | None = None,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
) -> ModelWindows:
    """Load a model and choose `count` windows of episodes held out of its training."""
    (opened,) = open_common_windows(
        [open_model(run, checkpoint, device)],
        dataset,
        context=context,
        horizon=horizon,
        count=count,
        episodes=episodes,
        seed=seed,
    )
    return opened


def open_common_windows(
    models: Sequence[LoadedModel],
    dataset: DatasetLike,
    *,
    context: int,
    horizon: int,
    count: int,
    episodes: int | None = None,
    seed: int = 0,
) -> list[ModelWindows]:
    """Choose `count` windows of episodes that all models held out of training."""
    data = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset)
    for model in models:
        model.require_fit(data)
    held_outs = [held_out(data, training_of(model.run), model.run.path) for model in models]
    windows = choose_windows(
        data.episodes,
        common_held_out(str(data.path), held_outs),
        context=context,
        horizon=horizon,
        count=count,
        episodes=episodes,
        seed=seed,
    )
    longest = max(window.rows for window in windows) - context
    return [
        ModelWindows(model, data, each.note, windows, context, longest)
        for model, each in zip(models, held_outs, strict=True)
    ]


def open_model(run: str | Path | LoadedModel, checkpoint: str, device: str) -> LoadedModel:
    """Load a run; a loaded model is returned as it is."""
    from wmtk.agent.load import LoadedModel, load

    return run if isinstance(run, LoadedModel) else load(run, checkpoint, device)


def training_of(run: Run) -> Mapping[str, Any]:
    """Metadata of the run that trained the world model: of a policy's run, the model's run."""
    from wmtk.runs.run_directory import Run

    if run.kind != "policy":
        return run.about
    try:
        return Run(Path(run.about["model"]["run"])).about
    except RunError:
        return run.about


def training_data(run: Run) -> Path:
    """The dataset that a run was trained on: its replay, or a dataset that still exists."""
    recorded = [Path(item["path"]) for item in run.about["data"]]
    siblings = [run.path.parent / path.name for path in recorded]
    for path in (run.path / "replay.zarr", *recorded, *siblings):
        if path.is_dir():
            return path
    raise MissingDataError(
        f"{run.path} was trained on {recorded[0]}, which no longer exists."
        if recorded
        else f"{run.path} has no dataset.",
        "Pass a dataset of the same task.",
    )
