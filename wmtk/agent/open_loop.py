"""Open-loop prediction: look at some rows, then go on blindly with the recorded actions."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from wmtk.models.conv import to_bytes
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel

CONTEXT, HORIZON, WINDOWS = 5, 15, 3  # of the pictures
KEEP = 10  # pictures per key

Picture = NDArray[np.uint8]  # (H, W, 3)

_SCALE, _BORDER, _GAP, _MARGIN = 2, 3, 3, 76  # pixels
_GREEN, _RED, _INK = (24, 128, 56), (200, 38, 38), (28, 32, 38)
_ROWS = ("truth", "model", "error")


@torch.no_grad()
def open_loop(
    model: WorldModel, inputs: Inputs, *, context: int, horizon: int, samples: int = 1
) -> tuple[State, State]:
    """The states of `context` rows that are seen (B, C, …), and of those imagined (B·S, H, …)."""
    assert context + horizon <= inputs.reward.shape[1], (context, horizon, inputs.reward.shape)
    seen = model.observe(window(inputs, slice(0, context)))
    last = State(*(part.repeat_interleave(samples, 0) for part in seen.at(-1)))
    actions = inputs.action[:, context : context + horizon].repeat_interleave(samples, 0)
    return seen, model.rssm.imagine(last, actions)


def window(inputs: Inputs, rows: slice) -> Inputs:
    """Some rows of all windows."""
    obs, *rest = inputs
    return Inputs({key: x[:, rows] for key, x in obs.items()}, *(x[:, rows] for x in rest))


class Windows(NamedTuple):
    """Windows of one key, the longest of a batch: frames (N, T, H, W, 3)."""

    truth: Picture
    model: Picture
    shown: NDArray[np.bool_]  # (N, T), false after the end of a short episode
    context: int  # rows that were seen; the others are imagined

    def picture(self) -> Picture:
        """All of it in one picture.

        Rows are the truth, what the model shows, and the error: gray where it is right, bright
        where the model is too bright, dark where it is too dark. Frames with a green border were
        seen, those with a red one imagined.
        """
        return _draw(*self)

    def video(self) -> list[Picture]:
        """The same step by step, with the windows side by side."""
        N, T = self.shown.shape
        return [
            _draw(
                self.truth[None, :, t],
                self.model[None, :, t],
                self.shown[None, :, t],
                N if t < self.context else 0,
            )
            for t in range(T)
        ]


@torch.no_grad()
def open_loop_windows(model: WorldModel, inputs: Inputs) -> dict[str, Windows]:
    """For each image that the model sees, some windows and what it makes of them."""
    length = inputs.reward.shape[1]
    context = min(CONTEXT, length - 1)
    horizon = min(HORIZON, length - context)
    longest = inputs.mask.sum(1).argsort(descending=True, stable=True)[:WINDOWS].sort().values
    obs, *rest = inputs
    chosen = Inputs({key: x[longest] for key, x in obs.items()}, *(x[longest] for x in rest))
    seen, imagined = open_loop(model, chosen, context=context, horizon=horizon)
    shown = chosen.mask[:, : context + horizon].cpu().numpy()
    windows = {}
    for key, image in model.decode(torch.cat([seen.feat, imagined.feat], 1)).items():
        truth = chosen.obs[key][:, : context + horizon]
        windows[key] = Windows(_color(truth), _color(to_bytes(image)), shown, context)
    return windows


def open_loop_pictures(model: WorldModel, inputs: Inputs) -> dict[str, Picture]:
    """For each image that the model sees, a picture of its longest windows."""
    return {key: windows.picture() for key, windows in open_loop_windows(model, inputs).items()}


def _color(frames: Tensor) -> Picture:
    """Frames (N, T, H, W, C) of one, three or four channels as RGB; transparency is left out."""
    pixels: Picture = frames.cpu().numpy()[..., :3]
    return np.broadcast_to(pixels, (*pixels.shape[:-1], 3))


def _draw(truth: Picture, model: Picture, shown: NDArray[np.bool_], context: int) -> Picture:
    """Frames (N, T, H, W, 3) as a picture: three rows per window, a column per step."""
    difference = (model.astype(np.int16) - truth + 255) // 2
    rows = np.stack([truth, model, difference.astype(np.uint8)], 1)  # (N, 3, T, H, W, 3)
    N, R, T, H, W, _ = rows.shape
    height, width = (side * _SCALE + 2 * _BORDER + _GAP for side in (H, W))
    canvas = np.full((N * (R * height + 4 * _GAP), _MARGIN + T * width, 3), 255, np.uint8)
    for n, r, t in np.ndindex(N, R, T):
        if not shown[n, t]:
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


def save_picture(folder: Path, key: str, step: int, picture: Picture) -> Path:
    """Write a PNG; of each key only the newest few are kept."""
    folder.mkdir(exist_ok=True)
    stem = f"open_loop-{key.replace('/', '_')}"
    path = folder / f"{stem}-{step:08d}.png"
    unfinished = folder / f".{path.name}.{secrets.token_hex(4)}"
    Image.fromarray(picture).save(unfinished, format="PNG")
    unfinished.replace(path)
    for old in sorted(folder.glob(f"{stem}-[0-9]*.png"))[:-KEEP]:
        old.unlink(missing_ok=True)
    return path
