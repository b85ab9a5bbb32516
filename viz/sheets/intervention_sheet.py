"""Interventions as an image: the pixels that each code changes, and frames for its classes."""

from __future__ import annotations

import numpy as np

from wmtk.stats import Numbers
from wmtk.viz.draw.canvas import FAINT, GRAY, LINE, RED, Canvas, Image, enlarge, to_rgb
from wmtk.viz.draw.rollout_panels import OBSERVED
from wmtk.viz.intervention import Intervention
from wmtk.viz.metrics.frames import to_unit

MARGIN = 20
HEADER = 66
NAMES = 96  # pixels left of a row of images
GAP = 8
COLUMNS = 13  # images in a row: the original, and its classes
CAPTION = LINE + 4
SECTION = 34  # pixels above a part, for its title
SIDE = 96  # approximate size of enlarged images
AMPLIFIED = 3  # factor by which differences are amplified
STRONG = 0.995  # the quantile of all changes that is drawn as the strongest


def intervention_sheet(
    result: Intervention, *, variables: int = 6, title: str = "", subtitle: str = ""
) -> Image:
    """The regions of all variables in order of their effect, then frames of the strongest."""
    height, width = result.before.shape[1:3]
    scale = max(1, round(SIDE / max(height, width)))
    wide, high = width * scale + GAP, height * scale + CAPTION
    order = np.argsort(-result.effect, kind="stable")
    strongest = order[:variables]
    maps = -(-len(order) // COLUMNS)
    full = 2 * MARGIN + NAMES + COLUMNS * wide
    pitch = high + height * scale + 3 * GAP
    rows = len(strongest) * pitch
    canvas = Canvas(full, HEADER + SECTION + maps * high + SECTION + rows + MARGIN)
    canvas.heading(MARGIN, title, subtitle)
    y = HEADER
    text = "Pixels that each code changes: the darker, the more a pixel changes with the class"
    canvas.text(MARGIN, y + 6, text, size=15)
    y += SECTION
    darkest = max(float(np.quantile(result.regions, STRONG)), 1e-9)
    for number, variable in enumerate(order.tolist()):
        row, column = divmod(number, COLUMNS)
        x, top = MARGIN + column * wide, y + row * high
        canvas.paste(x, top, enlarge(heat(result.regions[variable], darkest), scale))
        canvas.border(x, top, width * scale, height * scale, FAINT, 1)
        canvas.text(x, top + height * scale + 3, f"z{variable}  {result.effect[variable]:.1%}")
    y += maps * high
    text = (
        "The strongest codes: the original frame, and the code set to each class in use; below, "
        f"the difference, amplified {AMPLIFIED}×"
    )
    canvas.text(MARGIN, y + 8, text, size=15)
    y += SECTION
    for variable in strongest.tolist():
        _draw_row(canvas, y, result, variable, scale, wide)
        y += pitch
    return canvas.pixels()


def strongest_sheet(result: Intervention, variables: int = 6) -> Image:
    """Frames of the variables with the strongest effect."""
    height, width = result.before.shape[1:3]
    scale = max(1, round(SIDE / max(height, width)))
    wide, pitch = width * scale + GAP, 2 * height * scale + CAPTION + 3 * GAP
    strongest = np.argsort(-result.effect, kind="stable")[:variables].tolist()
    columns = 1 + max(len(result.classes[variable]) for variable in strongest)
    canvas = Canvas(2 * MARGIN + NAMES + columns * wide, MARGIN + len(strongest) * pitch)
    for number, variable in enumerate(strongest):
        _draw_row(canvas, MARGIN + number * pitch, result, variable, scale, wide)
    return canvas.pixels()


def heat(region: Numbers, darkest: float) -> Image:
    """From white (no change) to dark red (the most)."""
    level = np.clip(region / darkest, 0, 1)[..., None]
    white, dark = np.array([255.0, 255, 255]), np.array([122.0, 4, 3])
    middle = np.array([245.0, 125, 60])
    low = white + (middle - white) * np.minimum(2 * level, 1)
    high = middle + (dark - middle) * np.maximum(2 * level - 1, 0)
    colors: Image = np.round(np.where(level < 0.5, low, high)).astype(np.uint8)
    return colors


def change(before: Image, after: Image) -> Image:
    """The amplified difference: gray where equal, bright where `after` is brighter."""
    difference = (after.astype(np.int16) - before) * AMPLIFIED // 2 + 127
    pixels: Image = np.clip(difference, 0, 255).astype(np.uint8)
    return pixels


def _draw_row(
    canvas: Canvas, y: int, result: Intervention, variable: int, scale: int, wide: int
) -> None:
    """The frame that changes most: the original in green, then each class, its own in red."""
    images = result.images[variable]
    changes = np.abs(to_unit(images) - to_unit(result.before)[:, None])
    frame = int(changes.sum((1, 2, 3, 4)).argmax())
    before = to_rgb(result.before[frame, ..., :3])
    height, width = (side * scale for side in result.before.shape[1:3])
    canvas.text(MARGIN, y + height // 2 - LINE, f"z{variable}", size=16)
    canvas.text(MARGIN, y + height // 2 + 4, f"frame {frame + 1}", size=12, color=GRAY)
    x = MARGIN + NAMES
    canvas.paste(x, y, enlarge(before, scale))
    canvas.border(x, y, width, height, OBSERVED, 2)
    canvas.text(x, y + height + 5, "original", size=12)
    for number, code in enumerate(result.classes[variable].tolist()):
        x += wide
        image = to_rgb(images[frame, number, ..., :3])
        own = code == result.chosen[frame, variable]
        for top, pixels in ((y, image), (y + height + GAP, change(before, image))):
            canvas.paste(x, top, enlarge(pixels, scale))
            canvas.border(x, top, width, height, RED if own else FAINT, 2 if own else 1)
        canvas.text(x, y + 2 * height + GAP + 3, f"class {code}", size=12)
