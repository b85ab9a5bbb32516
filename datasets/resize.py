"""`resize`: a dataset with images of another size."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wmtk.datasets.dataset import Dataset
from wmtk.datasets.episode import Episode
from wmtk.datasets.integrity.validate import Progress
from wmtk.datasets.transform import PathOrDataset, TransformReport, open_source, write_new
from wmtk.errors import UsageError
from wmtk.observations import IMAGE_SIZE, ObsCodec, images_of
from wmtk.spaces import MIN_IMAGE_SIDE


def resize(
    source: PathOrDataset,
    target: str | os.PathLike[str],
    size: int = IMAGE_SIZE,
    *,
    keys: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TransformReport:
    """Write a dataset with its images resized to uint8 (size, size, channels).

    Each new pixel is the mean of the area that it covers, as with the setting `data.image_size` of
    training. `keys` are the observation keys to resize: by default all images of 32×32 or more.

    Example:
        >>> from wmtk.datasets import Dataset, resize
        >>> report = resize("catch.zarr", "small.zarr", 32)
        >>> Dataset.open("small.zarr")[0].obs["image"].shape
        (80, 32, 32, 1)
    """
    if size < 1:
        raise UsageError(f"Images of {size}×{size} are not possible.", "Use a size of 1 or more.")
    with contextlib.ExitStack() as stack:
        dataset = open_source(source, stack)
        obs = dataset.schema.obs
        chosen = images_of(obs) if keys is None else list(keys)
        if not chosen:
            raise UsageError(
                f"{dataset.path} holds no images of {MIN_IMAGE_SIDE}×{MIN_IMAGE_SIDE} or more.",
                f"Pass the keys to resize. There are: {', '.join(obs)}.",
            )
        codec = ObsCodec(obs, image_size=size, obs_keys=chosen, as_image=chosen)
        changed = [key for key in chosen if codec.changes(key)]
        if not changed:
            raise UsageError(
                f"The images of {dataset.path} are {size}×{size} already.", "Choose another size."
            )

        def resized(episode: Episode) -> Episode:
            new = {key: codec.rows(key, episode.obs[key]) for key in changed}
            return replace(episode, obs={**episode.obs, **new})

        schema = replace(dataset.schema, obs={**obs, **{key: codec.specs[key] for key in changed}})
        return write_new(
            [(dataset, dataset.episodes)],
            Path(target),
            schema,
            "resize",
            overwrite,
            progress,
            change=resized,
            env=_env(dataset, changed, size),
        )


def _env(dataset: Dataset, changed: Sequence[str], size: int) -> dict[str, Any]:
    """The description of the task; its option `size` is set if it applies to the same images."""
    env = dict(dataset.env)
    images = images_of(dataset.schema.obs, plain=True)
    if env.get("kind") in ("gymnasium", "module", "entry_point") and set(images) == set(changed):
        env["size"] = size
    return env
