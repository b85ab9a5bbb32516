"""Keyboard controls: buttons for discrete actions, levers for continuous ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.spaces import ArraySpec
from wmtk.viz.draw.actions import action_names

# By KeyboardEvent.code, which does not depend on the layout of the keyboard.
KEYS = {
    "up": ["ArrowUp", "KeyW"],
    "down": ["ArrowDown", "KeyS"],
    "left": ["ArrowLeft", "KeyA"],
    "right": ["ArrowRight", "KeyD"],
    "fire": ["Space"],
}
SIGNS = {"up": "↑", "down": "↓", "left": "←", "right": "→", "fire": "Space"}
IDLE = ("noop", "stay")
# Common environments whose actions have no names of their own.
GYMNASIUM: dict[str, tuple[str, ...]] = {
    "CartPole-v1": ("left", "right"),
    "MountainCar-v0": ("left", "stay", "right"),
    "Acrobot-v1": ("left", "stay", "right"),
}
MOST_LEVERS = 24
_ELEMENT = re.compile("up|down|left|right|fire")


@dataclass(frozen=True)
class Button:
    """A discrete action and the keys that select it."""

    label: str
    parts: frozenset[str]  # names of keys; empty for the idle action


class Controls:
    """Maps held keys and lever positions to actions of the environment."""

    def __init__(self, spec: ArraySpec, env: Mapping[str, Any]) -> None:
        self.spec = spec
        self.buttons = _buttons(_names(spec, env), spec) if spec.kind == "discrete" else []
        self._last = 0

    def action(self, held: Collection[str], values: Sequence[float]) -> NDArray[Any]:
        """The action for held keys and lever positions, in the shape and dtype of the space."""
        if self.spec.kind == "discrete":
            self._last = self._choice(frozenset(held))
            return np.asarray(self._last + int(self.spec.bound("low")), self.spec.dtype)
        return self._numbers(values)

    def _choice(self, held: frozenset[str]) -> int:
        """The button with the most keys, all of them held; the last one if none matches.

        The idle button has no keys and matches whenever no other one does.
        """
        fitting = [(len(b.parts), i) for i, b in enumerate(self.buttons) if b.parts <= held]
        if fitting:
            most = max(count for count, _ in fitting)
            return next(index for count, index in fitting if count == most)
        return self._last

    def _numbers(self, values: Sequence[float]) -> NDArray[Any]:
        levels = np.zeros(self.spec.numbers)
        positions = np.asarray(values[: self.spec.numbers], float)
        levels[: len(positions)] = positions
        low, high = self.reach()
        numbers = low + (levels + 1) / 2 * (high - low)
        if not self.spec.dtype.startswith("float"):
            numbers = np.rint(numbers)
        return numbers.astype(self.spec.dtype).reshape(self.spec.shape)

    def reach(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The action values at the ends of the levers; −1 and 1 for unbounded ones."""
        low, high = (self.spec.bound(side).ravel().astype(float) for side in ("low", "high"))
        low, high = np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)
        return low, high

    def describe(self) -> dict[str, Any]:
        """The controls as JSON: keys and labels."""
        if self.spec.kind == "discrete":
            used = {part for button in self.buttons for part in button.parts}
            return {
                "kind": "buttons",
                "buttons": [
                    {"label": b.label, "parts": sorted(b.parts), "sign": _sign(b.parts)}
                    for b in self.buttons
                ],
                "keys": {code: part for part in sorted(used) for code in _codes(part)},
            }
        low, high = self.reach()
        count = min(self.spec.numbers, MOST_LEVERS)
        return {
            "kind": "levers",
            "levers": [
                {"label": f"action {i}", "low": low[i], "high": high[i]} for i in range(count)
            ],
            "whole": not self.spec.dtype.startswith("float"),
            "hidden": self.spec.numbers - count,
        }


def _names(spec: ArraySpec, env: Mapping[str, Any]) -> tuple[str, ...]:
    names = action_names(env, spec)
    if not names:
        names = GYMNASIUM.get(str(env.get("env_id") or env.get("id") or ""), ())
    return names if len(names) == spec.n else ()


def _buttons(names: Sequence[str], spec: ArraySpec) -> list[Button]:
    """Buttons with arrow and fire keys where action names contain them, else with digits."""
    if not names:
        names = [f"action {i}" for i in range(spec.n)]
    buttons = []
    for index, name in enumerate(names):
        parts = frozenset(_ELEMENT.findall(name.lower()))
        if "".join(_ELEMENT.findall(name.lower())) != name.lower():
            parts = frozenset() if name.lower() in IDLE else frozenset([f"choice{index}"])
        buttons.append(Button(name, parts))
    return buttons


def _codes(part: str) -> list[str]:
    """The keyboard codes of a key name; choices 0 to 9 are the digits 1 … 9, 0."""
    if part in KEYS:
        return KEYS[part]
    number = int(part.removeprefix("choice"))
    if number < 10:
        digit = (number + 1) % 10
        return [f"Digit{digit}", f"Numpad{digit}"]
    return []


def _sign(parts: frozenset[str]) -> str:
    """The label of the key on the button."""
    if not parts:
        return "no key"
    order = [part for part in SIGNS if part in parts]
    rest = [str((int(p.removeprefix("choice")) + 1) % 10) for p in parts if p not in SIGNS]
    return " + ".join([SIGNS[part] for part in order] + rest)
