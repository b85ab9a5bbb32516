"""How to draw the episodes of a dataset: as images, or as lines if there are no images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Dataset, Episode, Schema
from wmtk.errors import UsageError
from wmtk.observations import to_bytes
from wmtk.spaces import ArraySpec
from wmtk.viz.draw.actions import ActionLook, action_names
from wmtk.viz.draw.canvas import Image, enlarge, shrink, to_rgb

MAX_LANES = 8  # numbers of an observation that are drawn
MAX_ACTION_LANES = 3


@dataclass(frozen=True)
class Lane:
    """One number over the time of an episode, drawn as a line between `low` and `high`."""

    name: str
    values: NDArray[np.float64]  # (T+1,)
    low: float
    high: float
    stepped: bool = False  # a line with corners, for actions


@dataclass(frozen=True)
class EpisodeView:
    """How to draw the episodes of one dataset: its actions, and its images if it has any."""

    actions: ActionLook
    image: str | None  # the observation key of the images; None draws lines
    spec: ArraySpec | None = None  # of the images
    other_images: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: Schema, env: Mapping[str, Any], image: str | None = None) -> EpisodeView:
        """With the images of a key, by default the first."""
        image_keys = [key for key, spec in schema.obs.items() if spec.is_image]
        if image is not None and image not in image_keys:
            if not image_keys:
                raise UsageError("The dataset has no images.", "Omit the image key to draw lines.")
            raise UsageError(
                f"The dataset has no images {image!r}.", f"It has: {', '.join(image_keys)}."
            )
        chosen = image or (image_keys[0] if image_keys else None)
        others = tuple(key for key in image_keys if key != chosen)
        actions = ActionLook(schema.action, action_names(env, schema.action))
        return cls(actions, chosen, None if chosen is None else schema.obs[chosen], others)

    def images(self, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """Rows of the image key, in any stored layout, as uint8 (…, H, W, C)."""
        assert self.spec is not None
        return to_bytes(self.spec, rows)

    def frame(self, episode: Episode, step: int, side: int, factor: int | None = None) -> Image:
        """The image at a step, enlarged to about `side` pixels, or by `factor`."""
        assert self.image is not None
        pixels = to_rgb(self.images(episode.obs[self.image][step]))
        longer = max(pixels.shape[:2])
        if factor is not None:
            return enlarge(pixels, factor)
        return enlarge(shrink(pixels, 3 * side // 2), max(1, round(side / longer)))

    def lanes(self, episodes: Sequence[Episode]) -> list[list[Lane]]:
        """The lines of each episode, on the same scales: observations, then actions."""
        columns = [self._columns(episode) for episode in episodes]
        lanes = []
        for group in zip(*columns, strict=True):
            everything = np.concatenate([values for _, values, _ in group])
            finite = everything[np.isfinite(everything)]
            low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
            lanes.append(
                [  # infinite values are drawn at the edge
                    Lane(name, np.clip(values, low, high), low, high, stepped)
                    for name, values, stepped in group
                ]
            )
        return [list(row) for row in zip(*lanes, strict=True)]

    def _columns(self, episode: Episode) -> list[tuple[str, NDArray[np.float64], bool]]:
        columns = []
        for key, rows in episode.obs.items():
            columns += [(name, values, False) for name, values in _numbers(key, rows)]
        # Row 0 has no action: the line begins with the action of row 1.
        rows = np.concatenate([episode.action[1:2], episode.action[1:]])
        actions = [(name, values, True) for name, values in _numbers("action", rows)]
        return columns[:MAX_LANES] + actions[:MAX_ACTION_LANES]


def _numbers(key: str, rows: NDArray[Any]) -> list[tuple[str, NDArray[np.float64]]]:
    """An array (T+1, …) as named columns (T+1,), at most MAX_LANES."""
    flat = rows.reshape(len(rows), -1)[:, :MAX_LANES].astype(np.float64)
    if rows.ndim == 1 or flat.shape[1] == 1:
        return [(key, flat[:, 0])]
    return [(f"{key}[{index}]", flat[:, index]) for index in range(flat.shape[1])]


def view_of(dataset: Dataset, image: str | None = None) -> EpisodeView:
    """How to draw the episodes of a dataset."""
    return EpisodeView.of(dataset.schema, dataset.env, image)
