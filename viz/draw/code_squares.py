"""The use of discrete codes as squares: darker classes are used more often."""

from __future__ import annotations

import numpy as np

from wmtk.stats import Numbers
from wmtk.viz.draw.canvas import PAPER, Color, Image, enlarge

DARK: Color = (8, 48, 107)
LIGHT: Color = (247, 251, 255)
DEAD: Color = (252, 214, 210)


def map_pixels(usage: Numbers, cell: int, threshold: float = 0.0) -> Image:
    """A square of `cell` pixels for each class (V, K); the shade is the square root of its share.

    Classes that are used less than the threshold are pale red.
    """
    level = np.sqrt(np.clip(usage, 0, 1))[..., None]
    light, dark = np.array(LIGHT, np.float64), np.array(DARK, np.float64)
    colors: Image = np.round(light + (dark - light) * level).astype(np.uint8)
    colors[usage < threshold] = DEAD
    pixels = enlarge(colors, cell)
    gaps = np.arange(1, max(usage.shape) + 1) * cell - 1  # a line between squares
    if cell > 3:
        pixels[gaps[: usage.shape[0]]] = PAPER
        pixels[:, gaps[: usage.shape[1]]] = PAPER
    return pixels
