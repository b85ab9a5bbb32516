"""Images of Catch and Reach: soft-edged discs, rasterized once and then copied."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Image = NDArray[np.uint8]

SIZE = 64
PHASES = 4  # sub-pixel positions per axis, so that motion below one pixel per step is visible
SAMPLES = 8  # per pixel and axis, for the soft edge


@cache
def disc(diameter: int, brightness: int, phase_x: int = 0, phase_y: int = 0) -> Image:
    """A disc as (diameter + 1)² pixels, shifted right and down by phase/PHASES of a pixel."""
    side = diameter + 1
    points = (np.arange(side * SAMPLES) + 0.5) / SAMPLES
    x = points - diameter / 2 - phase_x / PHASES
    y = points - diameter / 2 - phase_y / PHASES
    inside = x[None, :] ** 2 + y[:, None] ** 2 <= (diameter / 2) ** 2
    cover = inside.reshape(side, SAMPLES, side, SAMPLES).mean((1, 3))  # (side, side)
    pixels: Image = np.round(cover * brightness).astype(np.uint8)
    return pixels


def enlarge(image: Image, factor: int = 4) -> Image:
    """Enlarge (H, W, 1 or 3) to RGB (factor·H, factor·W, 3) for display, without smoothing."""
    rgb = np.broadcast_to(image, (*image.shape[:2], 3))
    return rgb.repeat(factor, 0).repeat(factor, 1)
