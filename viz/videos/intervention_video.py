"""Interventions as a video: codes are set to their classes one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.viz.draw.canvas import FAINT, GRAY, LINE, RED, Canvas, Image, elide, enlarge, to_rgb
from wmtk.viz.draw.rollout_panels import OBSERVED
from wmtk.viz.intervention import Intervention
from wmtk.viz.sheets.intervention_sheet import STRONG, heat

MARGIN = 16
HEADER = 62
CAPTION = LINE + 4
NAMES = 110  # pixels left of a row of images
GAP = 12
SIDE = 128  # approximate size of enlarged images
HOLD = 2  # frames per class


def intervention_frames(
    result: Intervention, *, variables: int = 4, title: str = "", subtitle: str = ""
) -> Iterator[Image]:
    """Rows are the codes with the strongest effect, columns the frames: original, then each class.

    A red border marks the class of the original frame.
    """
    strongest = np.argsort(-result.effect, kind="stable")[:variables].tolist()
    steps = max(len(result.classes[variable]) for variable in strongest)
    layout = _InterventionLayout(result, strongest)
    background = layout.background(title, subtitle)
    for step in range(-1, steps):
        frame = layout.draw(background, step)
        for _ in range(HOLD):
            yield frame


class _InterventionLayout:
    """The layout, which is the same in every frame."""

    def __init__(self, result: Intervention, variables: list[int]) -> None:
        self.result, self.variables = result, variables
        self.height, self.width = result.before.shape[1:3]
        self.scale = max(1, round(SIDE / max(self.height, self.width)))
        self.pitch = (self.height * self.scale + CAPTION + GAP, self.width * self.scale + GAP)
        self.left = MARGIN + NAMES + self.pitch[1] + GAP  # after the map of the code
        self.size = (
            max(self.left + len(result.before) * self.pitch[1] + MARGIN - GAP, 560),
            HEADER + CAPTION + len(variables) * self.pitch[0],
        )

    def background(self, title: str, subtitle: str) -> Image:
        canvas, result = Canvas(*self.size), self.result
        canvas.text(MARGIN, 10, elide(title, self.size[0] - 2 * MARGIN, 16), size=16)
        canvas.text(MARGIN, 34, elide(subtitle, self.size[0] - 2 * MARGIN, 12), size=12, color=GRAY)
        canvas.text(MARGIN + NAMES, HEADER, "changes", size=12, color=GRAY)
        for number in range(len(result.before)):
            x = self.left + number * self.pitch[1]
            canvas.text(x, HEADER, f"frame {number + 1}", size=12, color=GRAY)
        darkest = max(float(np.quantile(result.regions, STRONG)), 1e-9)
        for row, variable in enumerate(self.variables):
            x, y = MARGIN + NAMES, self._top(row)
            canvas.paste(x, y, enlarge(heat(result.regions[variable], darkest), self.scale))
            canvas.border(x, y, self.width * self.scale, self.height * self.scale, FAINT, 1)
            canvas.text(MARGIN, y + self.height * self.scale // 2 - LINE, f"z{variable}", size=16)
        return canvas.pixels()

    def _top(self, row: int) -> int:
        return HEADER + CAPTION + row * int(self.pitch[0])

    def draw(self, background: Image, step: int) -> Image:
        """All codes at their class number `step`; the original frames at step −1."""
        canvas, result = Canvas.of(background), self.result
        size = self.width * self.scale, self.height * self.scale
        for row, variable in enumerate(self.variables):
            y, classes = self._top(row), result.classes[variable]
            number = step % len(classes)
            name = "original" if step < 0 else f"class {classes[number]}"
            canvas.text(MARGIN, y + size[1] // 2 + 4, name)
            for frame, before in enumerate(result.before):
                x = self.left + frame * self.pitch[1]
                image = before if step < 0 else result.images[variable][frame, number]
                canvas.paste(x, y, enlarge(to_rgb(image[..., :3]), self.scale))
                own = step >= 0 and classes[number] == result.chosen[frame, variable]
                color = OBSERVED if step < 0 else RED if own else FAINT
                canvas.border(x, y, *size, color, 2)
        return canvas.pixels()
