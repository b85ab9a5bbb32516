"""Similarity of predicted and true images: frames (…, H, W, C) give numbers (…).

Images are uint8, or floats from 0 to 1, which are clipped.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Frames = NDArray[Any]

PSNR_MOST = 100.0  # dB: the PSNR of equal images would be infinite, and so would means
SIGMA = 1.5  # of the window of SSIM, in pixels
RADIUS = 5
BLOCK = 256  # frames at a time, which bounds the memory
_C1, _C2 = 0.01**2, 0.03**2  # of SSIM, for images from 0 to 1


def to_unit(frames: Frames) -> Numbers:
    """Pixels from 0 to 1."""
    if frames.dtype == np.uint8:
        return frames / 255.0
    return np.clip(frames.astype(np.float64), 0, 1)


def frame_mse(prediction: Frames, truth: Frames) -> Numbers:
    """The mean squared error of each frame."""
    difference = to_unit(prediction) - to_unit(truth)
    return np.asarray(np.square(difference).mean((-3, -2, -1)))


def psnr(mse: Numbers) -> Numbers:
    """10·log10(1/MSE) in decibels, at most PSNR_MOST."""
    least = 10 ** (-PSNR_MOST / 10)
    decibels: Numbers = -10 * np.log10(np.maximum(mse, least))
    return decibels


def ssim(prediction: Frames, truth: Frames) -> Numbers:
    """The structural similarity of each frame, as scikit-image defines it.

    The window is a Gaussian of 11 × 11 pixels inside the image; channels are averaged. Equal images
    have 1.
    """
    H, W, C = truth.shape[-3:]
    assert min(H, W) > 2 * RADIUS, f"SSIM needs more than {2 * RADIUS} pixels a side, not {H} × {W}"
    prediction, truth = np.broadcast_arrays(prediction, truth)
    lead = truth.shape[:-3]
    first, second = (x.reshape(-1, H, W, C) for x in (prediction, truth))
    similarity = np.empty(len(first))
    for start in range(0, len(first), BLOCK):
        block = slice(start, start + BLOCK)
        similarity[block] = _ssim(to_unit(first[block]), to_unit(second[block]))
    return similarity.reshape(lead)


def _ssim(x: Numbers, y: Numbers) -> Numbers:
    """Of frames (N, H, W, C): (N,)."""
    mean_x, mean_y = _blur(x), _blur(y)
    var_x, var_y = _blur(x * x) - mean_x**2, _blur(y * y) - mean_y**2
    covariance = _blur(x * y) - mean_x * mean_y
    above = (2 * mean_x * mean_y + _C1) * (2 * covariance + _C2)
    below = (mean_x**2 + mean_y**2 + _C1) * (var_x + var_y + _C2)
    return np.asarray((above / below).mean((0, 2, 3)))


def _blur(frames: Numbers) -> Numbers:
    """Gaussian means around all pixels that are RADIUS away from the border: (H', N, C, W')."""
    _, H, W, _ = frames.shape
    down = np.tensordot(_kernel(H), frames, (1, 1))  # (H', N, W, C)
    return np.tensordot(down, _kernel(W), (2, 1))


@cache
def _kernel(side: int) -> Numbers:
    """A matrix (side − 2·RADIUS, side) that blurs a line of pixels."""
    weights = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
    matrix = np.zeros((side - 2 * RADIUS, side))
    for row in range(len(matrix)):
        matrix[row, row : row + 2 * RADIUS + 1] = weights / weights.sum()
    return matrix


def moving(truth: Frames, reference: Frames, threshold: float = 0.0) -> NDArray[np.bool_]:
    """The pixels (…, H, W) that differ from a reference by more than `threshold` (of 1)."""
    difference = np.abs(to_unit(truth) - to_unit(reference))
    return np.asarray((difference > threshold).any(-1))


def masked_error(prediction: Frames, truth: Frames, mask: NDArray[np.bool_]) -> Numbers:
    """The squared error summed over the pixels of a mask (…, H, W), averaged over channels."""
    squares = np.square(to_unit(prediction) - to_unit(truth)).mean(-1)
    return np.asarray((squares * mask).sum((-2, -1)))
