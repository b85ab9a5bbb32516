"""How often each class of each discrete variable is used, as a picture."""

from __future__ import annotations

import math

import numpy as np

from wmtk.stats import Numbers
from wmtk.viz.draw.canvas import (
    BLUE,
    FAINT,
    GRAY,
    LINE,
    ORANGE,
    PAPER,
    RED,
    Canvas,
    Color,
    Image,
    elide,
    enlarge,
)
from wmtk.viz.metrics.codes import CodeUsage
from wmtk.viz.metrics.divergences import entropy

MARGIN = 20
HEADER = 66
HEAD = 44  # pixels above a map or a chart, for its title and the numbers of its columns
MAP = 512  # pixels that a map takes, roughly
SMALLEST, LARGEST = 10, 30  # pixels of a cell
NAMES = 42  # pixels left of the maps for the names of variables
GAP = 30
BARS = 150  # pixels for bars
VALUE = 40  # pixels right of them for their numbers
KEY = 70
DARK: Color = (8, 48, 107)
LIGHT: Color = (247, 251, 255)
DEAD: Color = (252, 214, 210)
SHOWN = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)  # shares in the key


def code_map(found: CodeUsage, prior: Numbers, *, title: str = "", subtitle: str = "") -> Image:
    """Maps (V, K) of posterior and prior, dead classes marked, and bars for each variable."""
    V, K = found.usage.shape
    cell = int(np.clip(MAP // max(V, K), SMALLEST, LARGEST))
    wide, high = K * cell, V * cell
    pitch = max(wide, 150) + GAP
    bars = MARGIN + NAMES + 2 * pitch
    width = bars + 2 * (BARS + VALUE + GAP) + MARGIN - GAP
    below = HEADER + HEAD + high
    canvas = Canvas(width, below + KEY)
    canvas.text(MARGIN, 14, elide(title, width - 2 * MARGIN, 20), size=20)
    canvas.text(MARGIN, 40, elide(subtitle, width - 2 * MARGIN), color=GRAY)
    top = HEADER + HEAD
    for row in range(V):
        if cell >= 13 or row % 2 == 0:
            canvas.text(MARGIN, top + row * cell + cell // 2 - 7, f"z{row}", size=11, color=GRAY)
    maps = [("posterior, having seen the frame", found.usage), ("prior, before seeing it", prior)]
    for number, (name, usage) in enumerate(maps):
        x = MARGIN + NAMES + number * pitch
        canvas.text(x, HEADER, elide(name, pitch - 6), size=14)
        _draw_map(canvas, x, top, cell, usage, found.threshold)
    used = np.exp(entropy(prior))
    _draw_bars(canvas, bars, top, cell, found.perplexity, used, f"perplexity, of {K}", float(K))
    left = bars + BARS + VALUE + GAP
    most = math.log(K)
    name = f"information, of {most:.1f} nats"
    _draw_bars(canvas, left, top, cell, found.information, None, name, most)
    _draw_key(canvas, MARGIN + NAMES, below + 14, found)
    return canvas.pixels()


def shade(share: float) -> Color:
    """From light to dark; small shares are told apart better than large ones."""
    level = math.sqrt(min(max(share, 0.0), 1.0))
    red, green, blue = (round(a + (b - a) * level) for a, b in zip(LIGHT, DARK, strict=True))
    return red, green, blue


def _draw_map(canvas: Canvas, x: int, y: int, cell: int, usage: Numbers, threshold: float) -> None:
    every = next(n for n in (1, 2, 4, 8, 16, 32, 64) if n * cell >= 24)
    for column in range(0, usage.shape[1], every):
        canvas.text(x + column * cell + 1, y - 15, str(column), size=11, color=GRAY)
    canvas.paste(x, y, map_pixels(usage, cell, threshold))
    for row, column in np.argwhere(usage < threshold).tolist():
        _cross(canvas, x + column * cell, y + row * cell, cell)


def _cross(canvas: Canvas, x: int, y: int, cell: int) -> None:
    inset, end = max(3, cell // 3), cell - 2
    (a, b), (c, d) = (x + inset, y + inset), (x + end - inset, y + end - inset)
    canvas.line([(a, b), (c, d)], RED)
    canvas.line([(a, d), (c, b)], RED)


def map_pixels(usage: Numbers, cell: int, threshold: float = 0.0) -> Image:
    """A square of `cell` pixels for each class (V, K), the darker the more it is used.

    What is used less than the threshold is dead, in a pale red.
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


def _draw_bars(
    canvas: Canvas,
    x: int,
    y: int,
    cell: int,
    values: Numbers,
    others: Numbers | None,
    name: str,
    most: float,
) -> None:
    """A bar for each variable, and a tick at the number of the prior."""
    canvas.text(x, y - HEAD, name, size=14)
    canvas.fill(x, y - 1, BARS, 1, FAINT)
    for row, value in enumerate(values.tolist()):
        top = y + row * cell
        canvas.fill(x, top, BARS, cell - 1, (246, 247, 249))
        canvas.fill(x, top, round(BARS * value / most), cell - 1, BLUE)
        if others is not None:
            canvas.fill(x + round(BARS * others[row] / most) - 1, top, 3, cell - 1, ORANGE)
        canvas.text(x + BARS + 6, top + cell // 2 - 7, f"{value:.3g}", size=11, color=GRAY)


def _draw_key(canvas: Canvas, x: int, y: int, found: CodeUsage) -> None:
    left = x
    for share in SHOWN:
        text = f"{share:.0%}"
        canvas.fill(x, y, 18, 14, shade(share))
        canvas.border(x, y, 18, 14, FAINT, 1)
        canvas.text(x + 23, y - 1, text, size=12)
        x += 62
    x += 10
    canvas.fill(x, y, 18, 14, DEAD)
    canvas.line([(x + 5, y + 3), (x + 13, y + 11)], RED)
    canvas.line([(x + 5, y + 11), (x + 13, y + 3)], RED)
    dead = f"dead: used in less than {found.threshold:.2%} of {found.frames:,} frames"
    canvas.text(x + 24, y - 1, dead, size=12)
    canvas.fill(left, y + LINE + 5, 18, 14, BLUE)
    canvas.text(left + 24, y + LINE + 3, "posterior", size=12)
    canvas.fill(left + 110, y + LINE + 5, 3, 14, ORANGE)
    text = "prior; information: what a variable tells about the frame, H(marginal) - mean H(q)"
    canvas.text(left + 120, y + LINE + 3, text, size=12)
