"""Interventions as a picture: which regions each code moves, and what its classes look like."""

from __future__ import annotations

import numpy as np

from wmtk.stats import Numbers
from wmtk.viz.draw.canvas import FAINT, GRAY, LINE, RED, Canvas, Image, elide, enlarge, to_rgb
from wmtk.viz.draw.rollout_panels import SEEN
from wmtk.viz.intervention import Intervention
from wmtk.viz.metrics.frames import to_unit

MARGIN = 20
HEADER = 66
NAMES = 96  # pixels left of a row of pictures
GAP = 8
COLUMNS = 13  # pictures in a row: as it is, and its classes
CAPTION = LINE + 4
SECTION = 34  # pixels above a part, for its title
SIDE = 96  # about what pictures are enlarged to
AMPLIFIED = 3  # changes are drawn this much stronger
STRONG = 0.995  # the quantile of all changes that is drawn as the strongest


def intervention_sheet(
    found: Intervention, *, variables: int = 6, title: str = "", subtitle: str = ""
) -> Image:
    """First the regions of all variables, by how much they change, then frames of the strongest."""
    height, width = found.before.shape[1:3]
    scale = max(1, round(SIDE / max(height, width)))
    wide, high = width * scale + GAP, height * scale + CAPTION
    order = np.argsort(-found.effect, kind="stable")
    strongest = order[:variables]
    maps = -(-len(order) // COLUMNS)
    full = 2 * MARGIN + NAMES + COLUMNS * wide
    pitch = high + height * scale + 3 * GAP
    rows = len(strongest) * pitch
    canvas = Canvas(full, HEADER + SECTION + maps * high + SECTION + rows + MARGIN)
    canvas.text(MARGIN, 14, elide(title, full - 2 * MARGIN, 20), size=20)
    canvas.text(MARGIN, 40, elide(subtitle, full - 2 * MARGIN), color=GRAY)
    y = HEADER
    text = "What each code moves: the darker, the more a pixel changes with the code's class"
    canvas.text(MARGIN, y + 6, text, size=15)
    y += SECTION
    darkest = max(float(np.quantile(found.regions, STRONG)), 1e-9)
    for number, variable in enumerate(order.tolist()):
        row, column = divmod(number, COLUMNS)
        x, top = MARGIN + column * wide, y + row * high
        canvas.paste(x, top, enlarge(heat(found.regions[variable], darkest), scale))
        canvas.border(x, top, width * scale, height * scale, FAINT, 1)
        canvas.text(x, top + height * scale + 3, f"z{variable}  {found.effect[variable]:.1%}")
    y += maps * high
    text = (
        "The strongest codes: a frame as it is, and with the code set to each class in use; below, "
        f"the change, {AMPLIFIED} times as strong"
    )
    canvas.text(MARGIN, y + 8, text, size=15)
    y += SECTION
    for variable in strongest.tolist():
        _draw_row(canvas, y, found, variable, scale, wide)
        y += pitch
    return canvas.pixels()


def strongest_sheet(found: Intervention, variables: int = 6) -> Image:
    """Frames of the variables that change most, and nothing else."""
    height, width = found.before.shape[1:3]
    scale = max(1, round(SIDE / max(height, width)))
    wide, pitch = width * scale + GAP, 2 * height * scale + CAPTION + 3 * GAP
    strongest = np.argsort(-found.effect, kind="stable")[:variables].tolist()
    columns = 1 + max(len(found.classes[variable]) for variable in strongest)
    canvas = Canvas(2 * MARGIN + NAMES + columns * wide, MARGIN + len(strongest) * pitch)
    for number, variable in enumerate(strongest):
        _draw_row(canvas, MARGIN + number * pitch, found, variable, scale, wide)
    return canvas.pixels()


def heat(region: Numbers, darkest: float) -> Image:
    """White where nothing changes, dark red where most does."""
    level = np.clip(region / darkest, 0, 1)[..., None]
    white, dark = np.array([255.0, 255, 255]), np.array([122.0, 4, 3])
    middle = np.array([245.0, 125, 60])
    low = white + (middle - white) * np.minimum(2 * level, 1)
    high = middle + (dark - middle) * np.maximum(2 * level - 1, 0)
    colors: Image = np.round(np.where(level < 0.5, low, high)).astype(np.uint8)
    return colors


def change(before: Image, after: Image) -> Image:
    """Gray where nothing changes, bright where pixels become brighter, dark where darker."""
    difference = (after.astype(np.int16) - before) * AMPLIFIED // 2 + 127
    pixels: Image = np.clip(difference, 0, 255).astype(np.uint8)
    return pixels


def _draw_row(
    canvas: Canvas, y: int, found: Intervention, variable: int, scale: int, wide: int
) -> None:
    """The frame that changes most: as it is in green, then with each class, its own in red."""
    pictures = found.images[variable]
    changes = np.abs(to_unit(pictures) - to_unit(found.before)[:, None])
    frame = int(changes.sum((1, 2, 3, 4)).argmax())
    before = to_rgb(found.before[frame, ..., :3])
    height, width = (side * scale for side in found.before.shape[1:3])
    canvas.text(MARGIN, y + height // 2 - LINE, f"z{variable}", size=16)
    canvas.text(MARGIN, y + height // 2 + 4, f"frame {frame + 1}", size=12, color=GRAY)
    x = MARGIN + NAMES
    canvas.paste(x, y, enlarge(before, scale))
    canvas.border(x, y, width, height, SEEN, 2)
    canvas.text(x, y + height + 5, "as it is", size=12)
    for number, code in enumerate(found.classes[variable].tolist()):
        x += wide
        picture = to_rgb(pictures[frame, number, ..., :3])
        own = code == found.chosen[frame, variable]
        for top, pixels in ((y, picture), (y + height + GAP, change(before, picture))):
            canvas.paste(x, top, enlarge(pixels, scale))
            canvas.border(x, top, width, height, RED if own else FAINT, 2 if own else 1)
        canvas.text(x, y + 2 * height + GAP + 3, f"class {code}", size=12)
