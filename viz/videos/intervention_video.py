"""Interventions as a video: codes run through their classes, and everything else stays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.viz.draw.canvas import FAINT, GRAY, LINE, RED, Canvas, Image, elide, enlarge, to_rgb
from wmtk.viz.draw.rollout_panels import SEEN
from wmtk.viz.intervention import Intervention
from wmtk.viz.sheets.intervention_sheet import heat

MARGIN = 16
HEADER = 62
CAPTION = LINE + 4
NAMES = 110  # pixels left of a row of pictures
GAP = 12
SIDE = 128  # about what pictures are enlarged to
HOLD = 2  # frames for which a class stays
STRONG = 0.995  # the quantile of all changes that is drawn as the strongest


def intervention_frames(
    found: Intervention, *, variables: int = 4, title: str = "", subtitle: str = ""
) -> Iterator[Image]:
    """Rows are the codes that change most, columns the frames: as they are, then class by class.

    A red border is around pictures that have the frame's own class, which changes nothing.
    """
    strongest = np.argsort(-found.effect, kind="stable")[:variables].tolist()
    steps = max(len(found.classes[variable]) for variable in strongest)
    scene = _Scene(found, strongest)
    background = scene.background(title, subtitle)
    for step in range(-1, steps):
        frame = scene.draw(background, step)
        for _ in range(HOLD):
            yield frame


class _Scene:
    """Where things are, the same in every frame."""

    def __init__(self, found: Intervention, variables: list[int]) -> None:
        self.found, self.variables = found, variables
        self.height, self.width = found.before.shape[1:3]
        self.scale = max(1, round(SIDE / max(self.height, self.width)))
        self.pitch = (self.height * self.scale + CAPTION + GAP, self.width * self.scale + GAP)
        self.left = MARGIN + NAMES + self.pitch[1] + GAP  # after the map of the code
        self.size = (
            max(self.left + len(found.before) * self.pitch[1] + MARGIN - GAP, 560),
            HEADER + CAPTION + len(variables) * self.pitch[0],
        )

    def background(self, title: str, subtitle: str) -> Image:
        canvas, found = Canvas(*self.size), self.found
        canvas.text(MARGIN, 10, elide(title, self.size[0] - 2 * MARGIN, 16), size=16)
        canvas.text(MARGIN, 34, elide(subtitle, self.size[0] - 2 * MARGIN, 12), size=12, color=GRAY)
        canvas.text(MARGIN + NAMES, HEADER, "what it moves", size=12, color=GRAY)
        for number in range(len(found.before)):
            x = self.left + number * self.pitch[1]
            canvas.text(x, HEADER, f"frame {number + 1}", size=12, color=GRAY)
        darkest = max(float(np.quantile(found.regions, STRONG)), 1e-9)
        for row, variable in enumerate(self.variables):
            x, y = MARGIN + NAMES, self._top(row)
            canvas.paste(x, y, enlarge(heat(found.regions[variable], darkest), self.scale))
            canvas.border(x, y, self.width * self.scale, self.height * self.scale, FAINT, 1)
            canvas.text(MARGIN, y + self.height * self.scale // 2 - LINE, f"z{variable}", size=16)
        return canvas.pixels()

    def _top(self, row: int) -> int:
        return HEADER + CAPTION + row * int(self.pitch[0])

    def draw(self, background: Image, step: int) -> Image:
        """All codes at their class number `step`; before the first, the frames as they are."""
        canvas, found = Canvas.of(background), self.found
        size = self.width * self.scale, self.height * self.scale
        for row, variable in enumerate(self.variables):
            y, classes = self._top(row), found.classes[variable]
            number = step % len(classes)
            name = "as it is" if step < 0 else f"class {classes[number]}"
            canvas.text(MARGIN, y + size[1] // 2 + 4, name)
            for frame, before in enumerate(found.before):
                x = self.left + frame * self.pitch[1]
                picture = before if step < 0 else found.images[variable][frame, number]
                canvas.paste(x, y, enlarge(to_rgb(picture[..., :3]), self.scale))
                own = step >= 0 and classes[number] == found.chosen[frame, variable]
                color = SEEN if step < 0 else RED if own else FAINT
                canvas.border(x, y, *size, color, 2)
        return canvas.pixels()
