"""Steps as frames for the page: images, numbers, codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import LatentState, Prediction
from wmtk.datasets import Schema
from wmtk.observations import to_bytes
from wmtk.viz.draw.canvas import to_rgb
from wmtk.viz.live.branches import Observation

MOST_NUMBERS = 32  # of vector observations

Tile = tuple[dict[str, Any], NDArray[np.uint8]]


class FramePainter:
    """Converts observations of one schema to tiles."""

    def __init__(self, schema: Schema) -> None:
        images = [key for key, spec in schema.obs.items() if spec.is_image]
        self.image = images[0] if images else None
        self._spec = schema.obs[images[0]] if images else None
        self._vectors = [key for key, spec in schema.obs.items() if not spec.is_image]

    def paint(
        self,
        prediction: Prediction | None,
        truth: Observation | None,
        unforced: Mapping[str, NDArray[Any]] | None,
    ) -> tuple[list[Tile], dict[str, Any]]:
        """Tiles and numbers of each future, of the true observation, and without forced codes."""
        tiles: list[Tile] = []
        numbers: dict[str, Any] = {}
        if prediction is not None:
            for future in range(len(prediction.reward)):
                obs = {key: rows[future] for key, rows in prediction.obs.items()}
                self._add(tiles, numbers, f"dream{future}", obs)
        if truth is not None:
            self._add(tiles, numbers, "truth", truth)
        if unforced is not None:
            self._add(tiles, numbers, "free", {key: rows[0] for key, rows in unforced.items()})
        return tiles, numbers

    def _add(self, tiles: list[Tile], numbers: dict[str, Any], role: str, obs: Observation) -> None:
        if self.image is not None and self._spec is not None:
            tiles.append(({"role": role}, _pixels(to_bytes(self._spec, obs[self.image]))))
        else:
            flat = [np.ravel(obs[key]) for key in self._vectors]
            numbers[role] = np.concatenate(flat)[:MOST_NUMBERS].astype(float)


def code_tile(
    prediction: Prediction, state: LatentState, latent: str
) -> tuple[Tile | None, list[int]]:
    """The prior of the first future, (variables, classes), and the sampled classes."""
    if latent == "gaussian":
        return None, []
    # The square root makes small probabilities visible.
    levels = np.rint(np.sqrt(np.clip(prediction.prior[0], 0, 1)) * 255).astype(np.uint8)
    return ({"role": "prior"}, levels), state.codes[0].tolist()


def _pixels(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grayscale images stay grayscale, which saves two thirds of the bytes."""
    return image if image.shape[-1] in {1, 3} else to_rgb(image)
