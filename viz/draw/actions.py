"""Actions as text: names where they are known, numbers and small bars otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.errors import WmtkError
from wmtk.spaces import ArraySpec
from wmtk.viz.draw.canvas import FAINT, GRAY, INK, LINE, TEXT, Canvas, elide, text_width

# The names of all 18 actions of the Atari console, in the order in which ALE numbers them.
ATARI = (
    *("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN"),
    *("UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT"),
    *("UPFIRE", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE"),
    *("UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"),
)
# Names of the actions of environments that are part of wmtk.
ACTION_NAMES: dict[str, tuple[str, ...]] = {"wmtk/Catch-v0": ("left", "stay", "right")}


def action_names(env: Mapping[str, Any], spec: ArraySpec) -> tuple[str, ...]:
    """The names of the discrete actions of a dataset, or () if they are unknown.

    `env` is the dataset's description of its environment. Only Atari environments are created to
    read the names: a dataset must not select code to run.
    """
    if spec.kind != "discrete":
        return ()
    env_id = str(env.get("env_id") or env.get("id") or "")
    names = ACTION_NAMES.get(env_id, ())
    if env_id.startswith("ALE/"):
        names = ATARI if spec.n == len(ATARI) else _minimal(env_id)
    return names if len(names) == spec.n else ()


def _minimal(env_id: str) -> tuple[str, ...]:
    """The action meanings of the minimal action set of a game, in the order of the emulator."""
    try:
        from wmtk.envs.atari import AtariEnv, find_rom
        from wmtk.envs.task_options import AtariOptions

        env = AtariEnv(find_rom(env_id), AtariOptions(full_action_space=False))
    except WmtkError:  # no emulator, or a game that it does not have
        return ()
    return tuple(env.get_action_meanings())


@dataclass(frozen=True)
class ActionLook:
    """How to draw the actions of a dataset."""

    spec: ArraySpec
    names: tuple[str, ...] = ()

    @property
    def continuous(self) -> bool:
        return self.spec.kind == "box" and np.dtype(self.spec.dtype).kind == "f"

    def text(self, action: NDArray[Any]) -> str:
        """One action as a few characters: a name, or its numbers."""
        values = np.ravel(action).tolist()
        if self.names:
            return self.names[int(values[0]) - int(self.spec.bound("low"))]
        if self.continuous:
            return " ".join(f"{value:+.2f}" for value in values)
        return " ".join(str(int(value)) for value in values)

    def levels(self, action: NDArray[Any]) -> NDArray[np.float64]:
        """The numbers of a continuous action, from −1 at the lower bound to 1 at the upper.

        Zero stays zero. A missing bound counts as ±1.
        """
        values = np.ravel(action).astype(np.float64)
        low, high = (np.ravel(self.spec.bound(which)).astype(float) for which in ("low", "high"))
        reach = np.where(values < 0, -low, high)
        usable = np.isfinite(reach) & (reach > 0)
        levels: NDArray[np.float64] = np.clip(values / np.where(usable, reach, 1.0), -1, 1)
        return levels

    def draw(
        self, canvas: Canvas, x: int, y: int, width: int, action: NDArray[Any], size: int = TEXT
    ) -> None:
        """Draw an action in a line of `width` pixels: as a name, or as a bar for each number."""
        text = self.text(action)
        if not self.continuous:
            canvas.text(x, y, elide(text, width, size), size=size)
            return
        used = draw_bars(canvas, x, y, width, self.levels(action))
        if used + 8 + text_width(text, TEXT - 1) <= width:
            canvas.text(x + used + 8, y + 1, text, size=TEXT - 1)


def draw_bars(canvas: Canvas, x: int, y: int, width: int, levels: NDArray[np.float64]) -> int:
    """A vertical bar for each level, up from the middle if positive; returns the width used."""
    half = LINE // 2 - 2
    pitch = int(np.clip(width // len(levels), 2, 9))
    drawn = levels[: width // pitch]
    used = pitch * len(drawn) - 1
    canvas.fill(x, y, used, 2 * half + 1, FAINT)
    canvas.fill(x, y + half, used, 1, GRAY)
    for index, level in enumerate(drawn):
        rise = round(abs(level) * half)
        top = y + half - rise if level > 0 else y + half
        canvas.fill(x + index * pitch, top, pitch - 1, rise + 1, INK)
    return used
