"""Writing images and videos; the ending of the path is the format.

mp4 is H.264 and webm is VP9, both in yuv420p with even sides, which browsers and QuickTime need.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
from PIL import Image as PillowImage

from wmtk.errors import MissingDependencyError, UsageError, WmtkError
from wmtk.viz.draw.canvas import Image

VIDEO_ENDINGS = (".mp4", ".webm", ".gif")
IMAGE_ENDINGS = (".png",)
SHORTEST_GIF_DELAY = 20  # ms; browsers slow down what is faster
LAST_GIF_DELAY = 1000  # ms, before a gif restarts

# Constant quality, at which the edges of enlarged pixels stay clean.
ENCODERS: dict[str, dict[str, Any]] = {
    ".mp4": {
        "codec": "libx264",
        "output_params": ["-crf", "18", "-preset", "medium", "-movflags", "+faststart"],
    },
    ".webm": {
        "codec": "libvpx-vp9",
        "output_params": ["-crf", "24", "-b:v", "0", "-cpu-used", "5", "-row-mt", "1"],
    },
}


@dataclass(frozen=True)
class Written:
    """An image or video that was written."""

    path: Path
    frames: int
    width: int
    height: int
    bytes: int


def require_ending(path: Path, allowed: Iterable[str]) -> str:
    """The ending of a path that can be written; call it before long work."""
    ending = path.suffix.lower()
    endings = tuple(allowed)
    if ending not in endings:
        raise UsageError(
            f"Files ending in {ending!r} cannot be written: {path}."
            if ending
            else f"{path} has no ending, which selects the format.",
            f"Use one of: {', '.join(endings)}.",
        )
    blocking = next((p for p in path.absolute().parents if p.exists()), path)
    fault = "it is a folder" if path.is_dir() else ""
    fault = fault or ("" if blocking.is_dir() else f"{blocking} is not a folder")
    fault = fault or ("" if os.access(blocking, os.W_OK) else f"no permission in {blocking}")
    if fault:
        raise WmtkError(f"{path} could not be written: {fault}.", "Choose another place.")
    if ending in ENCODERS and find_spec("imageio_ffmpeg") is None:
        raise MissingDependencyError("imageio-ffmpeg", "video", f"Writing {ending}")
    return ending


def usual_ending() -> str:
    """The default ending of videos: mp4 where ffmpeg is installed."""
    return ".gif" if find_spec("imageio_ffmpeg") is None else ".mp4"


def write_image(path: str | os.PathLike[str], pixels: Image) -> Written:
    """Write an image (H, W, 3) as PNG."""
    target = Path(path)
    require_ending(target, IMAGE_ENDINGS)
    with replacing(target) as unfinished:
        PillowImage.fromarray(np.ascontiguousarray(pixels)).save(unfinished, optimize=True)
    return Written(target, 1, pixels.shape[1], pixels.shape[0], target.stat().st_size)


def write_video(path: str | os.PathLike[str], frames: Iterable[Image], fps: float) -> Written:
    """Write frames (H, W, 3) of equal size as a video; the iterable is consumed lazily.

    Sides of mp4 and webm are padded to even numbers. A gif shows its last frame for a second, and
    equal frames in a row become one that lasts longer.
    """
    target = Path(path)
    ending = require_ending(target, VIDEO_ENDINGS)
    if not fps > 0:
        raise UsageError(f"{fps} is not a number of frames per second.", "Use one such as 15.")
    iterator = iter(frames)
    first = next(iterator, None)
    if first is None:
        raise UsageError(f"There is no frame to write into {target}.")
    counted = _Counted(chain([first], iterator), first.shape, even=ending in ENCODERS)
    with replacing(target) as unfinished:
        if ending == ".gif":
            _write_gif(unfinished, counted, fps)
        else:
            _write_ffmpeg(unfinished, counted, fps, ENCODERS[ending])
    height, width = counted.size
    return Written(target, counted.count, width, height, target.stat().st_size)


class _Counted:
    """Checks that frames have one size, pads them to even sides if needed, and counts them."""

    def __init__(self, frames: Iterable[Image], shape: tuple[int, ...], *, even: bool) -> None:
        self._frames = frames
        self._shape = shape
        self._padding = tuple((0, side % 2 if even else 0) for side in shape[:2])
        self.size = tuple(n + pad for n, (_, pad) in zip(shape[:2], self._padding, strict=True))
        self.count = 0

    def __iter__(self) -> Iterator[Image]:
        for frame in self._frames:
            assert frame.shape == self._shape, (frame.shape, self._shape)
            self.count += 1
            yield np.pad(frame, (*self._padding, (0, 0)), mode="edge")


def _write_ffmpeg(path: Path, frames: Iterable[Image], fps: float, encoder: dict[str, Any]) -> None:
    writer = imageio.get_writer(
        path,
        format="FFMPEG",
        mode="I",
        fps=fps,
        quality=None,  # the encoder's own scale, in output_params
        pixelformat="yuv420p",
        macro_block_size=1,  # no scaling, as the sides are even
        ffmpeg_log_level="error",
        **encoder,
    )
    with closing(writer):  # the writer's own context manager leaves ffmpeg running after an error
        for frame in frames:
            writer.append_data(frame)


def _write_gif(path: Path, frames: Iterable[Image], fps: float) -> None:
    images = [PillowImage.fromarray(np.ascontiguousarray(frame)) for frame in frames]
    delay = max(SHORTEST_GIF_DELAY, round(1000 / fps))
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=[*[delay] * (len(images) - 1), LAST_GIF_DELAY],
        loop=0,
    )


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A temporary file that replaces the target once it is complete."""
    unfinished = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.touch()  # fails with a clearer error than ffmpeg
        yield unfinished
        unfinished.replace(target)
    except OSError as error:
        raise WmtkError(
            f"{target} could not be written: {error.strerror or error}.",
            "Choose another place.",
        ) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
