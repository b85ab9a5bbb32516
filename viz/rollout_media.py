"""`wmtk.viz.open_loop`, `reconstructions` and `dream`: rollouts as images and videos."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wmtk.errors import RunError
from wmtk.reprs import brief_repr
from wmtk.stats import Numbers
from wmtk.viz.draw.episode_view import view_of
from wmtk.viz.draw.rollout_panels import choose_image
from wmtk.viz.output_files import (
    DrawnFile,
    default_path,
    file_fields,
    no_progress,
    output_path,
    write_drawing,
)
from wmtk.viz.rollouts import (
    Rollout,
    open_loop_rollouts,
    policy_rollouts,
    reconstruction_rollouts,
)
from wmtk.viz.sheets.rollout_sheet import rollout_sheet
from wmtk.viz.videos.rollout_video import rollout_frames
from wmtk.viz.windows import (
    CONTEXT,
    HORIZON,
    DatasetLike,
    ModelWindows,
    OnProgress,
    open_model,
    open_windows,
    read_windows,
    training_data,
)

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedModel

EPISODES, COLUMNS, FPS = 3, 12, 8.0  # defaults of episodes, frames per row, steps per second


@dataclass(frozen=True, kw_only=True)
class RolloutFile(DrawnFile):
    """Rollouts of a model, and the file that shows them."""

    windows: list[str]  # titles of the rollouts
    image: str | None  # the observation key shown; None if vectors were drawn as lines
    rollouts: list[Rollout] = field(repr=False)

    __repr__ = brief_repr


@dataclass(frozen=True, kw_only=True)
class DreamFile(RolloutFile):
    """Rollouts of a policy inside of its world model, and the file that shows them."""

    context: int
    horizon: int
    samples: int
    sampled_actions: bool
    imagined_returns: list[Numbers]  # for each start (S,): discounted rewards plus the last value
    values: list[Numbers]  # for each start (S,): of the first imagined row

    __repr__ = brief_repr


def open_loop(
    run: str | Path | LoadedModel,
    dataset: DatasetLike,
    out: str | Path | None = None,
    *,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    samples: int = 1,
    episodes: int = EPISODES,
    columns: int = COLUMNS,
    fps: float = FPS,
    image: str | None = None,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> RolloutFile:
    """Predict windows open loop, and draw the predictions beside the recorded rows.

    The model observes `context` rows of a window, then imagines `horizon` rows with the recorded
    actions.

    Args:
        run: A run directory, or a loaded model.
        dataset: A dataset of the same task, or its path.
        out: A `.png`, `.mp4`, `.webm` or `.gif`; by default a video in the run directory.
        context: Rows of each window that the model observes.
        horizon: Rows that it imagines; fewer if no episode is long enough.
        samples: Futures of each window.
        episodes: Number of episodes, with one window each.
        columns: Frames per row of an image.
        fps: Steps per second of a video.
        image: The observation key to show; by default the first image.
        seed: Seed of windows and latents.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        The rollouts as arrays in `.rollouts`, and the file in `.path`.

    Example:
        >>> result = wmtk.viz.open_loop(run, data, "open-loop.png", context=2, horizon=6)
        >>> result.path
        PosixPath('open-loop.png')
        >>> result.rollouts[0].predicted["image"].shape  # (S, T, H, W, C)
        (1, 8, 64, 64, 1)
    """
    path = output_path(out)
    opened = open_windows(
        run,
        dataset,
        context=context,
        horizon=horizon,
        count=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    rollouts = [
        rollout
        for batch in opened.batches()
        for rollout in open_loop_rollouts(
            opened.model, batch, context=context, samples=samples, seed=seed
        )
    ]
    path = path or default_path(opened, "openloop", still=False)
    drawing = _Drawing("Open loop", columns, fps, image, seed, on_progress)
    return drawing.write(opened, rollouts, path)


def reconstructions(
    run: str | Path | LoadedModel,
    dataset: DatasetLike,
    out: str | Path | None = None,
    *,
    rows: int = CONTEXT + HORIZON,
    episodes: int = EPISODES,
    columns: int = COLUMNS,
    fps: float = FPS,
    image: str | None = None,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> RolloutFile:
    """Reconstruct windows from posterior states, and draw them beside the recorded rows.

    Args:
        run: A run directory, or a loaded model.
        dataset: A dataset of the same task, or its path.
        out: A `.png`, `.mp4`, `.webm` or `.gif`; by default a video in the run directory.
        rows: Rows of each window.
        episodes: Number of episodes, with one window each.
        columns: Frames per row of an image.
        fps: Steps per second of a video.
        image: The observation key to show; by default the first image.
        seed: Seed of windows and latents.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        The rollouts as arrays in `.rollouts`, and the file in `.path`.

    Example:
        >>> result = wmtk.viz.reconstructions(run, data, "reconstructions.png", rows=8)
        >>> result.rollouts[0].predicted["image"].shape
        (1, 8, 64, 64, 1)
    """
    path = output_path(out)
    opened = open_windows(
        run,
        dataset,
        context=1,
        horizon=rows - 1,
        count=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    rollouts = [
        rollout
        for batch in opened.batches()
        for rollout in reconstruction_rollouts(opened.model, batch, seed=seed)
    ]
    path = path or default_path(opened, "recon", still=False)
    drawing = _Drawing("Reconstructions", columns, fps, image, seed, on_progress)
    return drawing.write(opened, rollouts, path)


def dream(
    run: str | Path | LoadedModel,
    out: str | Path | None = None,
    *,
    dataset: DatasetLike | None = None,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    samples: int = 1,
    sample: bool = False,
    episodes: int = EPISODES,
    columns: int = COLUMNS,
    fps: float = FPS,
    image: str | None = None,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> DreamFile:
    """Imagine episodes of a policy inside of its world model, and draw them.

    The model observes `context` recorded rows; then the policy acts and the model imagines
    `horizon` rows.

    Args:
        run: The run directory of a trained policy, or a loaded agent.
        out: A `.png`, `.mp4`, `.webm` or `.gif`; by default a video in the run directory.
        dataset: The dataset to start from; by default the one that the run was trained on.
        context: Rows that the model observes.
        horizon: Imagined steps.
        samples: Futures of each start.
        sample: Whether to sample actions; otherwise the most likely ones are taken.
        episodes: Number of starts, from one episode each.
        columns: Frames per row of an image.
        fps: Steps per second of a video.
        image: The observation key to show; by default the first image.
        seed: Seed of starts, latents and actions.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        The rollouts as arrays, imagined returns and values, and the file in `.path`.

    Example:
        >>> result = wmtk.viz.dream(policy, "dream.png", context=2, horizon=6, episodes=1)
        >>> result.rollouts[0].rows
        8
        >>> result.imagined_returns[0].shape  # (S,)
        (1,)
    """
    from wmtk.agent.load import LoadedAgent

    path = output_path(out)
    agent = open_model(run, checkpoint, device)
    if not isinstance(agent, LoadedAgent):
        raise RunError(
            f"{agent.run.path} is a {agent.run.kind} run, which has no actor.",
            f"Train one: wmtk train-policy {shlex.quote(str(agent.run.path))} --out …",
        )
    opened = open_windows(
        agent,
        training_data(agent.run) if dataset is None else dataset,
        context=context,
        horizon=1,
        count=episodes,
        seed=seed,
    )
    imagined = policy_rollouts(
        agent,
        read_windows(opened.dataset, opened.windows, context),
        horizon=horizon,
        samples=samples,
        sample=sample,
        seed=seed,
        actions=view_of(opened.dataset).actions,
    )
    path = path or default_path(opened, "dream", still=False)
    drawing = _Drawing("Dreams", columns, fps, image, seed, on_progress)
    drawn = drawing.write(opened, [episode.rollout for episode in imagined], path)
    return DreamFile(
        **vars(drawn),
        context=context,
        horizon=horizon,
        samples=samples,
        sampled_actions=sample,
        imagined_returns=[episode.imagined_return for episode in imagined],
        values=[episode.value for episode in imagined],
    )


@dataclass(frozen=True)
class _Drawing:
    """Options with which rollouts are drawn."""

    name: str
    columns: int
    fps: float
    image: str | None
    seed: int
    on_progress: OnProgress

    def write(self, opened: ModelWindows, rollouts: Sequence[Rollout], path: Path) -> RolloutFile:
        model = opened.model
        key = choose_image(dict(model.schema.obs), self.image)
        title = f"{self.name} of {model.run.path.name}, update {model.step:,}"
        subtitle = f"{opened.dataset.path.name}: {opened.held_out}. Seed {self.seed}."
        total = max(rollout.rows for rollout in rollouts)
        written = write_drawing(
            path,
            lambda: rollout_sheet(
                rollouts, key, columns=self.columns, title=title, subtitle=subtitle
            ),
            lambda: rollout_frames(rollouts, key, title=title),
            self.fps,
            lambda done: self.on_progress(f"Drawing {path.name}", done, total),
        )
        return RolloutFile(
            **file_fields(opened, written, self.seed),
            windows=[rollout.title for rollout in rollouts],
            image=key,
            rollouts=list(rollouts),
        )
