"""Use of discrete latents: `wmtk.viz.code_usage`, and the distributions of codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wmtk.datasets import Batch
from wmtk.errors import UsageError
from wmtk.reprs import brief_repr
from wmtk.stats import Numbers
from wmtk.viz import metrics
from wmtk.viz.draw.canvas import Image
from wmtk.viz.draw.rollout_panels import choose_image
from wmtk.viz.evaluation.measurements import Predictor
from wmtk.viz.output_files import (
    DrawnFile,
    chart_path,
    default_path,
    file_fields,
    no_progress,
    write_drawing,
)
from wmtk.viz.videos.code_video import code_clips, code_frames
from wmtk.viz.windows import (
    CONTEXT,
    HORIZON,
    WINDOWS,
    DatasetLike,
    ModelWindows,
    OnProgress,
    open_windows,
)

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedModel
    from wmtk.viz.plots.code_history import CheckpointCodes

VIDEO_EPISODES = 1  # by default


@dataclass(frozen=True)
class CodeAverages:
    """Use of codes by one checkpoint, averaged over variables."""

    update: int
    dead_share: float
    perplexity: float
    information: float  # nats
    distance: float  # between the use by prior and by posterior, 0 to 1


@dataclass(frozen=True, kw_only=True)
class CodeUsageFile(DrawnFile):
    """How a model uses its V variables of K classes, and the file that shows it."""

    dead_share: float
    codes: metrics.CodeUsage
    prior_usage: Numbers  # (V, K)
    distance: Numbers  # (V,), between the use by prior and by posterior, 0 to 1
    training: list[CodeAverages]  # of all checkpoints, if requested

    __repr__ = brief_repr


def code_usage(
    run: str | Path | LoadedModel,
    dataset: DatasetLike,
    out: str | Path | None = None,
    *,
    training: bool = False,
    windows: int = WINDOWS,
    rows: int = CONTEXT + HORIZON,
    episodes: int | None = None,
    fps: float = 8.0,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> CodeUsageFile:
    """Measure and draw how often each class of each discrete latent variable is used.

    An image shows maps of the use by posterior and prior, with the perplexity and the information
    of each variable. A video shows the codes of episodes step by step. With `training`, both show
    how the use changed from checkpoint to checkpoint.

    Args:
        run: A run directory, or a loaded model.
        dataset: A dataset of the same task, or its path.
        out: A `.png`, `.svg`, `.pdf`, `.mp4`, `.webm` or `.gif`; by default an image in the run
            directory.
        training: Whether to evaluate all checkpoints of the run.
        windows: Number of windows.
        rows: Rows of each window.
        episodes: Episodes to take the windows from at most; None for all. Of a video, the number
            of episodes shown, by default 1.
        fps: Steps or checkpoints per second of a video.
        seed: Seed of windows and latents.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        Usage, perplexity and information as arrays, and the file in `.path`.

    Example:
        >>> result = wmtk.viz.code_usage(run, data, "codes.png", windows=4, rows=6)
        >>> result.codes.usage.shape  # (V, K)
        (2, 4)
        >>> result.prior_usage.shape
        (2, 4)
    """
    from wmtk.viz.plots.code_history import code_history
    from wmtk.viz.plots.code_map import code_map

    path = chart_path(out, or_video=True)
    opened = open_windows(
        run,
        dataset,
        context=1,
        horizon=rows - 1,
        count=windows,
        episodes=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    current = _checkpoint_codes(opened, seed, on_progress)
    name = "codes-training" if training else "codes"
    path = path or default_path(opened, name, still=True)
    model = opened.model
    title = f"Codes of {model.run.path.name}"
    caption = f"{opened.dataset.path.name}: {opened.held_out}. {current.usage.frames:,} frames."
    history = _history(opened, current, seed, device, on_progress) if training else []
    at_update = f"{title}, update {current.update:,}"
    if training:
        written = write_drawing(
            path,
            lambda: code_history(history, title=title, caption=caption),
            lambda: _maps(history, title, caption),
            fps,
        )
    else:
        written = write_drawing(
            path,
            lambda: code_map(current.usage, current.prior, title=at_update, caption=caption),
            lambda: _episode_frames(opened, episodes or VIDEO_EPISODES, at_update, seed),
            fps,
        )
    return CodeUsageFile(
        **file_fields(opened, written, seed),
        dead_share=current.usage.dead_share,
        codes=current.usage,
        prior_usage=current.prior,
        distance=current.distance,
        training=[_averages(codes) for codes in history],
    )


def code_distributions(
    model: Predictor,
    windows: Sequence[Batch],
    *,
    seed: int = 0,
    on_windows: Callable[[int], None] = lambda count: None,
) -> tuple[Numbers, Numbers]:
    """Posterior and prior distributions of the F rows of windows, each (F, V, K)."""
    posteriors, priors = [], []
    for number, batch in enumerate(windows):
        states = model.observe_batch(batch, seed + number)
        if states.latent == "gaussian":
            raise UsageError(
                "The model has Gaussian latents: there are no codes.",
                "Code usage needs categorical or binary latents.",
            )
        posteriors.append(states.posterior[batch.mask])
        priors.append(states.prior[batch.mask])
        on_windows(len(batch.reward))
    return (
        np.concatenate(posteriors).astype(np.float64),
        np.concatenate(priors).astype(np.float64),
    )


def _checkpoint_codes(opened: ModelWindows, seed: int, on_progress: OnProgress) -> CheckpointCodes:
    """The use of codes by one checkpoint."""
    from wmtk.viz.plots.code_history import CheckpointCodes

    total, done = len(opened.windows), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        on_progress(f"Encoding windows, update {opened.model.step:,}", done, total)

    posterior, prior = code_distributions(
        opened.model, opened.batches(), seed=seed, on_windows=advance
    )
    return CheckpointCodes(opened.model.step, metrics.code_usage(posterior), prior.mean(0))


def _history(
    opened: ModelWindows, current: CheckpointCodes, seed: int, device: str, on_progress: OnProgress
) -> list[CheckpointCodes]:
    """The use of codes by each checkpoint of the run, on the same windows."""
    from wmtk.agent.load import load

    run = opened.model.run
    steps = run.checkpoints.steps()
    if len(steps) < 2:
        raise UsageError(
            f"{run.path} has a single checkpoint: no change can be shown.",
            "Train with logging.keep_checkpoints=20 to keep more of them.",
        )
    history = []
    for step in steps:
        if step == current.update:
            history.append(current)
            continue
        earlier = replace(opened, model=load(run.path, str(step), device))
        history.append(_checkpoint_codes(earlier, seed, on_progress))
    return history


def _averages(codes: CheckpointCodes) -> CodeAverages:
    return CodeAverages(
        update=codes.update,
        dead_share=codes.usage.dead_share,
        perplexity=float(codes.usage.perplexity.mean()),
        information=float(codes.usage.information.mean()),
        distance=float(codes.distance.mean()),
    )


def _maps(history: Sequence[CheckpointCodes], title: str, caption: str) -> Iterator[Image]:
    """The map of each checkpoint."""
    from wmtk.viz.plots.code_map import code_map
    from wmtk.viz.plots.figures import figure_pixels

    for codes in history:
        name = f"{title}, update {codes.update:,}"
        yield figure_pixels(code_map(codes.usage, codes.prior, title=name, caption=caption))


def _episode_frames(opened: ModelWindows, episodes: int, title: str, seed: int) -> Iterator[Image]:
    """One window of each of some episodes, one after the other."""
    batch = opened.model.preprocess(opened.one_per_episode(episodes))
    image = choose_image(dict(opened.model.schema.obs), None)
    for clip in code_clips(opened.model.observe_batch(batch, seed), batch, image):
        yield from code_frames(clip, title=title)
