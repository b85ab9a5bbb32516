"""Pictures and films inside of the page, as addresses that hold their own bytes."""

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


def address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def png(pixels: Image) -> str:
    """A picture as an address; one with few colors takes a palette, which is smaller."""
    picture = PillowImage.fromarray(np.ascontiguousarray(pixels))
    colors = picture.getcolors(256)
    if colors is not None:
        picture = picture.convert("P", palette=PillowImage.Palette.ADAPTIVE, colors=len(colors))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return address("image/png", buffer.getvalue())


def picture(pixels: Image, caption: str, alt: str) -> Markup:
    height, width = pixels.shape[:2]
    image = element("img", src=png(pixels), width=width, height=height, alt=alt, loading="lazy")
    return element("figure", image, element("figcaption", caption), class_="picture")


def webm(frames: Iterable[Image], fps: float = FPS) -> tuple[bytes, int, int]:
    """A film in VP9, which browsers play without the system's codecs; its width and height."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_video(Path(folder) / "film.webm", frames, fps)
        return written.path.read_bytes(), written.width, written.height


def film(frames: Iterable[Image], caption: str, name: str, fps: float = FPS) -> Markup:
    """A film that repeats, can be stepped and slowed down; `name` is for those who cannot see."""
    content, width, height = webm(frames, fps)
    video = element(
        "video",
        src=address("video/webm", content),
        width=width,
        height=height,
        controls=True,
        loop=True,
        muted=True,
        playsinline=True,
        preload="auto",
        aria_label=name,
    )
    steps = [element("button", text, type="button", data_steps=n) for n, text in STEPS]
    speeds = [
        element("option", f"{speed:g}×", value=speed, selected=speed == 1) for speed in SPEEDS
    ]
    speed = element("label", "Speed ", element("select", *speeds))
    full = element("button", "Full screen", type="button", class_="full")
    play = element("button", "Play", type="button", class_="play")
    place = element("input", type="range", min=0, max=1, value=0, step=1, aria_label="Row")
    return element(
        "figure",
        video,
        element("div", play, place, element("output"), *steps, speed, full, class_="controls"),
        element("figcaption", caption),
        class_="film",
        data_fps=fps,
    )
