"""Drawing with sharp pixels and small text, for sheets and videos."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont

Image = NDArray[np.uint8]  # (H, W, 3)
Color = tuple[int, int, int]

PAPER: Color = (255, 255, 255)
INK: Color = (28, 32, 38)
GRAY: Color = (112, 119, 128)
FAINT: Color = (214, 218, 223)
GREEN: Color = (24, 128, 56)
RED: Color = (200, 38, 38)
PURPLE: Color = (142, 36, 170)
BLUE: Color = (21, 101, 192)
ORANGE: Color = (219, 109, 0)
CLEAR = 200  # gray level behind transparent pixels

TEXT = 13  # default font size in pixels
LINE = 18  # pixels from one line of text to the next

# Replacements for characters that Pillow's default font lacks; it covers little more than ASCII.
PLAIN = {"−": "-", "–": "-", "—": "-", "×": "x", "→": "->", "λ": "lambda", "ε": "eps"}


@cache
def font_file() -> Path | None:
    """DejaVu Sans, which is installed with matplotlib; None without it."""
    package = find_spec("matplotlib")
    for folder in (package.submodule_search_locations if package else None) or ():
        path = Path(folder, "mpl-data", "fonts", "ttf", "DejaVuSans.ttf")
        if path.is_file():
            return path
    return None


@cache
def _font(size: int) -> Any:
    """The font for text of `size` pixels; DejaVu Sans is larger than the font of Pillow."""
    path = font_file()
    if path is None:
        return ImageFont.load_default(size)
    return ImageFont.truetype(path, max(size - 1, 11), layout_engine=ImageFont.Layout.BASIC)


def drawable(text: str) -> str:
    """`text` in characters of the font; others are replaced, without accents or by '?'."""
    return "".join(_drawable(character) for character in text)


@cache
def _drawable(character: str) -> str:
    font = _font(TEXT)
    missing = bytes(font.getmask("\uffff"))
    ascii_only = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    for text in (character, PLAIN.get(character, ""), ascii_only):
        if text == " " or (text.isprintable() and text and bytes(font.getmask(text)) != missing):
            return text
    return "?"


def text_width(text: str, size: int = TEXT) -> int:
    width: float = _font(size).getlength(drawable(text))
    return round(width)


def elide(text: str, width: int, size: int = TEXT) -> str:
    """`text` shortened to `width` pixels, with … where something is left out."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(f"{text}…", size) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


def wrap(text: str, width: int, lines: int = 2) -> list[str]:
    """`text` broken into lines of `width` pixels at any character; the last line is elided."""
    broken: list[str] = []
    while len(broken) < lines - 1 and text_width(text) > width:
        fitting = next(
            n for n in range(len(text), 0, -1) if text_width(text[:n]) <= width or n == 1
        )
        broken.append(text[:fitting])
        text = text[fitting:].lstrip()
    return [*broken, elide(text, width)]


def to_rgb(frame: NDArray[np.uint8]) -> Image:
    """Gray (H, W) or (H, W, 1), RGB or RGBA (H, W, 4) as RGB, over a light gray background."""
    pixels = frame[:, :, None] if frame.ndim == 2 else frame
    assert pixels.dtype == np.uint8, pixels.dtype
    assert pixels.ndim == 3, pixels.shape
    assert pixels.shape[-1] in (1, 3, 4), pixels.shape
    if pixels.shape[-1] == 4:
        alpha = pixels[:, :, 3:].astype(np.float64) / 255
        mixed = pixels[:, :, :3] * alpha + CLEAR * (1 - alpha)
        return np.round(mixed).astype(np.uint8)
    return np.broadcast_to(pixels, (*pixels.shape[:2], 3))


def enlarge(image: Image, factor: int) -> Image:
    """Every pixel as a square of `factor` pixels, without smoothing."""
    return image.repeat(factor, 0).repeat(factor, 1)


def shrink(image: Image, side: int) -> Image:
    """The image with its longer side at most `side` pixels, by averaging."""
    height, width = image.shape[:2]
    if max(height, width) <= side:
        return image
    size = max(1, width * side // max(height, width)), max(1, height * side // max(height, width))
    box = PillowImage.Resampling.BOX
    return np.asarray(PillowImage.fromarray(np.ascontiguousarray(image)).resize(size, box))


class Canvas:
    """An image to draw on; x runs right and y down from the top left corner."""

    def __init__(self, width: int, height: int, background: Color = PAPER) -> None:
        self.width = width
        self.height = height
        self._image = PillowImage.new("RGB", (width, height), background)
        self._draw = ImageDraw.Draw(self._image)

    @classmethod
    def of(cls, pixels: Image) -> Canvas:
        """A canvas with a copy of an image."""
        canvas = cls(pixels.shape[1], pixels.shape[0])
        canvas.paste(0, 0, pixels)
        return canvas

    def pixels(self) -> Image:
        """A copy of the pixels (H, W, 3)."""
        return np.array(self._image)

    def paste(self, x: int, y: int, pixels: Image) -> None:
        self._image.paste(PillowImage.fromarray(np.ascontiguousarray(pixels)), (x, y))

    def fill(self, x: int, y: int, width: int, height: int, color: Color) -> None:
        if width > 0 and height > 0:
            self._draw.rectangle((x, y, x + width - 1, y + height - 1), fill=color)

    def border(self, x: int, y: int, width: int, height: int, color: Color, thick: int) -> None:
        """Draw a border of `thick` pixels around an area, outside of it."""
        for grown in range(1, thick + 1):
            corner = x + width - 1 + grown, y + height - 1 + grown
            self._draw.rectangle((x - grown, y - grown, *corner), outline=color)

    def line(self, points: Sequence[tuple[float, float]], color: Color, thick: int = 1) -> None:
        self._draw.line(list(points), fill=color, width=thick, joint="curve")

    def text(self, x: int, y: int, text: str, *, color: Color = INK, size: int = TEXT) -> None:
        """Draw a line of text with its top left corner at (x, y)."""
        self._draw.text((x, y), drawable(text), fill=color, font=_font(size))

    def heading(self, x: int, title: str, subtitle: str) -> None:
        """Draw a title and a gray subtitle, with margins of x pixels on both sides."""
        room = self.width - 2 * x
        self.text(x, 14, elide(title, room, 20), size=20)
        self.text(x, 40, elide(subtitle, room), color=GRAY)

    def averaged(self, factor: int) -> Image:
        """The pixels, `factor` times smaller by averaging, which makes lines smooth."""
        height, width = self.height // factor, self.width // factor
        blocks = self.pixels().reshape(height, factor, width, factor, 3)
        averaged: Image = np.round(blocks.mean((1, 3))).astype(np.uint8)
        return averaged

    def badge(self, x: int, y: int, text: str, color: Color, *, right: bool = False) -> int:
        """Draw white text in a colored box that begins at x, or ends there; returns its width."""
        width = text_width(text) + 10
        left = x - width if right else x
        box = (left, y, left + width - 1, y + LINE - 2)
        self._draw.rounded_rectangle(box, radius=4, fill=color)
        self.text(left + 5, y + 1, text, color=PAPER)
        return width
