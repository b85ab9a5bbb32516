"""Interventions on discrete latents: `wmtk.viz.intervene`, and decoding with changed codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import Floats, Posterior
from wmtk.datasets import Batch
from wmtk.errors import UsageError
from wmtk.reprs import brief_repr
from wmtk.stats import Numbers
from wmtk.viz.draw.rollout_panels import choose_image
from wmtk.viz.metrics.codes import CodeUsage, code_usage
from wmtk.viz.metrics.frames import to_unit
from wmtk.viz.output_files import (
    DrawnFile,
    default_path,
    file_fields,
    no_progress,
    output_path,
    write_drawing,
)
from wmtk.viz.windows import DatasetLike, OnProgress, open_windows, read_windows

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedModel

MOST_CLASSES = 12  # of a variable, the most frequent ones
WINDOWS, ROWS = 16, 20  # on which the use of classes is counted


@dataclass(frozen=True)
class Intervention:
    """F frames, decoded with each of V variables set to each of its classes in use."""

    before: NDArray[np.uint8]  # (F, H, W, C), reconstructions
    chosen: NDArray[np.int64]  # (F, V), classes of the posterior sample
    classes: list[NDArray[np.int64]]  # for each variable, the classes it was set to
    images: list[NDArray[np.uint8]]  # for each variable, (F, classes, H, W, C)
    regions: Numbers  # (V, H, W), mean absolute change of each pixel, 0 to 1

    @property
    def effect(self) -> Numbers:
        """(V,), mean absolute change of a pixel by each variable, 0 to 1."""
        return np.asarray(self.regions.mean((1, 2)))


@dataclass(frozen=True, kw_only=True)
class InterventionFile(DrawnFile):
    """Effects of the codes on decoded images, and the file that shows them."""

    image: str  # observation key
    changed: list[str]  # the frames whose codes were changed
    effect: Numbers  # (V,), mean absolute change of a pixel, 0 to 1
    intervention: Intervention = field(repr=False)

    __repr__ = brief_repr


def intervene(
    run: str | Path | LoadedModel,
    dataset: DatasetLike,
    out: str | Path | None = None,
    *,
    variables: int = 6,
    frames: int = 4,
    episodes: int | None = None,
    fps: float = 2.0,
    image: str | None = None,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> InterventionFile:
    """Change one code of a latent state at a time, and draw what the decoder makes of it.

    Each variable is set to each class that is in use while the rest of the state stays.

    Args:
        run: A run directory, or a loaded model.
        dataset: A dataset of the same task, or its path.
        out: A `.png`, `.mp4`, `.webm` or `.gif`; by default an image in the run directory.
        variables: Variables drawn with all of their classes, those with the largest effect.
        frames: Number of frames whose codes are changed.
        episodes: Episodes to take them from at most; None for all.
        fps: Changes per second of a video.
        image: The observation key to decode; by default the first image.
        seed: Seed of frames and latents.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        The mean change by each variable, all decoded images, and the file in `.path`.

    Example:
        >>> result = wmtk.viz.intervene(run, data, "codes-changed.png", frames=2)
        >>> result.effect.shape  # (V,)
        (2,)
        >>> result.intervention.before.shape  # (F, H, W, C)
        (2, 64, 64, 1)
    """
    from wmtk.viz.sheets.intervention_sheet import intervention_sheet
    from wmtk.viz.videos.intervention_video import intervention_frames

    path = output_path(out)
    opened = open_windows(
        run,
        dataset,
        context=1,
        horizon=ROWS - 1,
        count=max(WINDOWS, frames),
        episodes=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    model = opened.model
    key = choose_image(dict(model.schema.obs), image)
    if key is None:
        raise UsageError(
            "The model has no image observations to decode.", "wmtk viz codes needs no images."
        )
    batch = read_windows(opened.dataset, opened.windows, opened.length)
    posterior = model.observe_batch(batch, seed)
    usage = code_usage(posterior.posterior[batch.mask])
    windows, steps, changed = middle_rows(batch, frames)
    intervention = set_codes(
        model,
        posterior,
        (windows, steps),
        key,
        usage,
        on_variable=lambda done, total: on_progress("Changing codes", done, total),
    )
    title = f"Codes of {model.run.path.name} changed, update {model.step:,}"
    subtitle = f"{opened.dataset.path.name} ({opened.held_out}). Frames: {'; '.join(changed)}."
    written = write_drawing(
        path or default_path(opened, "intervene", still=True),
        lambda: intervention_sheet(
            intervention, variables=variables, title=title, subtitle=subtitle
        ),
        lambda: intervention_frames(
            intervention, variables=variables, title=title, subtitle=subtitle
        ),
        fps,
    )
    return InterventionFile(
        **file_fields(opened, written, seed),
        image=key,
        changed=changed,
        effect=intervention.effect,
        intervention=intervention,
    )


def middle_rows(batch: Batch, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Indices (F,) of windows and of their middle rows, and names of these frames."""
    windows = np.arange(min(count, len(batch.reward)))
    steps = np.asarray(batch.mask[windows].sum(1) // 2)
    names = [
        f"episode {batch.episode[w]}, step {batch.start[w] + s}"
        for w, s in zip(windows, steps, strict=True)
    ]
    return windows, steps, names


def set_codes(
    model: LoadedModel,
    posterior: Posterior,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    image: str,
    usage: CodeUsage,
    *,
    most_classes: int = MOST_CLASSES,
    on_variable: Callable[[int, int], None] = lambda done, total: None,
) -> Intervention:
    """Set each code of some frames to each class in use, and decode.

    Args:
        model: The model that decodes latent states.
        posterior: Its posterior states of N windows.
        rows: Indices of F frames: windows (F,) and steps (F,).
        image: The observation key to decode.
        usage: Use of the classes, which weights them in `Intervention.regions`.
        most_classes: Classes of a variable at most, the most frequent ones.
        on_variable: Called with the number of finished variables and of all.
    """
    deter, stoch = posterior.deter[rows], posterior.stoch[rows]  # (F, D), (F, Z)
    V, K = usage.usage.shape
    chosen = _classes_of(posterior, stoch, V, K)
    before = model.decode(deter, stoch)[image]
    classes, images, regions = [], [], []
    for variable in range(V):
        used = np.argsort(-usage.usage[variable], kind="stable")[:most_classes]
        tried = np.sort(used[~usage.dead[variable, used]])
        changed = np.stack([_with_code(posterior, stoch, variable, int(k), K) for k in tried], 1)
        states = np.broadcast_to(deter[:, None], (*changed.shape[:2], deter.shape[-1]))
        decoded = model.decode(states, changed)[image]
        difference = np.abs(to_unit(decoded) - to_unit(before)[:, None]).mean(-1)  # (F, k, H, W)
        weight = usage.usage[variable, tried]
        regions.append(np.average(difference, 1, weight).mean(0))
        classes.append(tried)
        images.append(decoded)
        on_variable(variable + 1, V)
    return Intervention(before, chosen, classes, images, np.stack(regions))


def _classes_of(posterior: Posterior, stoch: Floats, V: int, K: int) -> NDArray[np.int64]:
    if posterior.latent == "gaussian":
        raise UsageError(
            "The model has Gaussian latents: there are no codes to change.",
            "Interventions need categorical or binary latents.",
        )
    if posterior.latent == "binary":
        return np.asarray(stoch > 0.5, np.int64)
    return np.asarray(stoch.reshape(-1, V, K).argmax(-1), np.int64)


def _with_code(posterior: Posterior, stoch: Floats, variable: int, code: int, K: int) -> Floats:
    """Stochastic states with one variable set to a class."""
    changed = stoch.copy()
    if posterior.latent == "binary":
        changed[:, variable] = code
    else:
        changed[:, variable * K : (variable + 1) * K] = np.eye(K, dtype=np.float32)[code]
    return changed
