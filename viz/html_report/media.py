"""Images and videos embedded in the page as data URLs."""

from __future__ import annotations

import base64
import io
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image as PillowImage

from wmtk.viz.draw.canvas import Image
from wmtk.viz.html_report.markup import Markup, element
from wmtk.viz.videos.video_file import write_video

FPS = 8.0
SPEEDS = (0.25, 0.5, 1, 2)
STEPS = ((-10, "−10"), (-1, "−1 step"), (1, "+1 step"), (10, "+10"))


def data_url(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def png(pixels: Image) -> str:
    """Encode an image as a PNG data URL, with a palette if it has at most 256 colors."""
    image = PillowImage.fromarray(np.ascontiguousarray(pixels))
    colors = image.getcolors(256)
    if colors is not None:
        image = image.convert("P", palette=PillowImage.Palette.ADAPTIVE, colors=len(colors))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return data_url("image/png", buffer.getvalue())


def image_figure(pixels: Image, caption: str, alt: str) -> Markup:
    """An image with a caption; `alt` is its alternative text."""
    height, width = pixels.shape[:2]
    image = element("img", src=png(pixels), width=width, height=height, alt=alt, loading="lazy")
    return element("figure", image, element("figcaption", caption), class_="image")


def webm(frames: Iterable[Image], fps: float = FPS) -> tuple[bytes, int, int]:
    """Encode a VP9 video, which browsers play without system codecs; with its width and height."""
    with tempfile.TemporaryDirectory() as folder:
        video = write_video(Path(folder) / "video.webm", frames, fps)
        return video.path.read_bytes(), video.width, video.height


def video_figure(frames: Iterable[Image], caption: str, label: str, fps: float = FPS) -> Markup:
    """A looping video with controls for position, single steps and speed.

    Screen readers read `label`.
    """
    content, width, height = webm(frames, fps)
    video = element(
        "video",
        src=data_url("video/webm", content),
        width=width,
        height=height,
        controls=True,
        loop=True,
        muted=True,
        playsinline=True,
        preload="auto",
        aria_label=label,
    )
    steps = [element("button", text, type="button", data_steps=n) for n, text in STEPS]
    speeds = [
        element("option", f"{speed:g}×", value=speed, selected=speed == 1) for speed in SPEEDS
    ]
    speed = element("label", "Speed ", element("select", *speeds))
    full = element("button", "Full screen", type="button", class_="full")
    play = element("button", "Play", type="button", class_="play")
    position = element("input", type="range", min=0, max=1, value=0, step=1, aria_label="Row")
    return element(
        "figure",
        video,
        element("div", play, position, element("output"), *steps, speed, full, class_="controls"),
        element("figcaption", caption),
        class_="video",
        data_fps=fps,
    )
