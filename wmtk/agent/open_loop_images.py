"""Images and videos of open-loop predictions, for the log of a training run."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from wmtk.agent.predictions import open_loop
from wmtk.models.conv import to_bytes
from wmtk.models.world_model import Inputs, WorldModel

CONTEXT, HORIZON, WINDOWS = 5, 15, 3  # rows, rows and windows per image
KEEP = 10  # images that remain on disk per key

Frame = NDArray[np.uint8]  # (H, W, 3)

_SCALE, _BORDER, _GAP, _MARGIN = 2, 3, 3, 76  # pixels
_GREEN, _RED, _INK = (24, 128, 56), (200, 38, 38), (28, 32, 38)
_ROWS = ("truth", "model", "error")


class OpenLoopWindows(NamedTuple):
    """The longest windows of a batch, for one key: frames (N, T, H, W, 3)."""

    truth: Frame
    model: Frame
    mask: NDArray[np.bool_]  # (N, T), false after the end of a short episode
    context: int  # observed rows; the others are imagined

    def image(self) -> Frame:
        """One image of all windows.

        Rows are the recorded frames, the model's frames, and the error: gray where it is 0, bright
        where the model is too bright, dark where it is too dark. Frames with a green border were
        observed, those with a red border imagined.
        """
        return _draw(*self)

    def video(self) -> list[Frame]:
        """One image per step, with the windows side by side."""
        N, T = self.mask.shape
        return [
            _draw(
                self.truth[None, :, t],
                self.model[None, :, t],
                self.mask[None, :, t],
                N if t < self.context else 0,
            )
            for t in range(T)
        ]


@torch.no_grad()
def open_loop_windows(model: WorldModel, inputs: Inputs) -> dict[str, OpenLoopWindows]:
    """The longest windows and their open-loop predictions, for each key of images."""
    length = inputs.reward.shape[1]
    context = min(CONTEXT, length - 1)
    horizon = min(HORIZON, length - context)
    longest = inputs.mask.sum(1).argsort(descending=True, stable=True)[:WINDOWS].sort().values
    obs, *rest = inputs
    windowed = Inputs({key: x[longest] for key, x in obs.items()}, *(x[longest] for x in rest))
    posterior, imagined = open_loop(model, windowed, context=context, horizon=horizon)
    mask = windowed.mask[:, : context + horizon].cpu().numpy()
    windows = {}
    for key, image in model.decode(torch.cat([posterior.feat, imagined.feat], 1)).items():
        truth = windowed.obs[key][:, : context + horizon]
        windows[key] = OpenLoopWindows(_color(truth), _color(to_bytes(image)), mask, context)
    return windows


def open_loop_images(model: WorldModel, inputs: Inputs) -> dict[str, Frame]:
    """An image of the longest windows, for each key of images."""
    return {key: windows.image() for key, windows in open_loop_windows(model, inputs).items()}


def _color(frames: Tensor) -> Frame:
    """Convert frames (N, T, H, W, C) of one, three or four channels to RGB; drops transparency."""
    pixels: Frame = frames.cpu().numpy()[..., :3]
    return np.broadcast_to(pixels, (*pixels.shape[:-1], 3))


def _draw(truth: Frame, model: Frame, mask: NDArray[np.bool_], context: int) -> Frame:
    """Draw frames (N, T, H, W, 3) as one image: three rows per window, a column per step."""
    difference = (model.astype(np.int16) - truth + 255) // 2
    rows = np.stack([truth, model, difference.astype(np.uint8)], 1)  # (N, 3, T, H, W, 3)
    N, R, T, H, W, _ = rows.shape
    height, width = (side * _SCALE + 2 * _BORDER + _GAP for side in (H, W))
    canvas = np.full((N * (R * height + 4 * _GAP), _MARGIN + T * width, 3), 255, np.uint8)
    for n, r, t in np.ndindex(N, R, T):
        if not mask[n, t]:
            continue  # after the end of a short episode
        top = n * (R * height + 4 * _GAP) + r * height
        left = _MARGIN + t * width
        canvas[top : top + height - _GAP, left : left + width - _GAP] = (
            _GREEN if t < context else _RED
        )
        large = rows[n, r, t].repeat(_SCALE, 0).repeat(_SCALE, 1)
        top, left = top + _BORDER, left + _BORDER
        canvas[top : top + H * _SCALE, left : left + W * _SCALE] = large
    image = Image.fromarray(canvas)
    text, font = ImageDraw.Draw(image), ImageFont.load_default(20)
    for n, r in np.ndindex(N, R):
        top = n * (R * height + 4 * _GAP) + r * height + height // 2 - 14
        text.text((6, top), _ROWS[r], fill=_INK, font=font)
    return np.array(image)


def save_image(folder: Path, key: str, step: int, image: Frame) -> Path:
    """Write a PNG and delete all but the newest KEEP images of the key."""
    folder.mkdir(exist_ok=True)
    stem = f"open_loop-{key.replace('/', '_')}"
    path = folder / f"{stem}-{step:08d}.png"
    unfinished = folder / f".{path.name}.{secrets.token_hex(4)}"
    Image.fromarray(image).save(unfinished, format="PNG")
    unfinished.replace(path)
    for old in sorted(folder.glob(f"{stem}-[0-9]*.png"))[:-KEEP]:
        old.unlink(missing_ok=True)
    return path
