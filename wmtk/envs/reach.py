"""wmtk/Reach-v0: push a point mass to a target that jumps away at random moments."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from wmtk.envs.drawing import PHASES, SIZE, disc, enlarge

Image = NDArray[np.uint8]
Floats = NDArray[np.float32]

AGENT, TARGET = 16, 22  # diameters in pixels: large, or a reconstruction loss does not notice them
# velocity' = DRAG · velocity + FORCE · action + NOISE · N(0, 1). A step at random moves the mass by
# some pixels: with forces whose traces were smaller than that, models learned to ignore actions.
DRAG, FORCE = 0.3, 0.25
NOISE = 0.02
TARGET_JUMP = 0.03  # probability a step
SHARPNESS = 2.0  # reward = exp(−SHARPNESS · distance)
EPISODE_STEPS = 100

# Mean undiscounted returns over 20,000 episodes; the standard errors are 0.05 and 0.03. The second
# is that of `reach_controller`: near the optimum, not proven to be it.
RANDOM_RETURN = 18.1
CONTROLLER_RETURN = 88.0


class ReachEnv(gym.Env[Image, Floats]):
    """Actions: a force in [−1, 1]². Reward in (0, 1], 1 on the target.

    Positions lie in [−1, 1]², x to the right and y down as in the picture; the walls stop the mass.
    The target does not care where the mass is: jumping when reached would make waiting just
    outside of it the best policy. The mass is cyan, the target red, white where both are.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (gymnasium's)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self._blank = np.zeros((SIZE, SIZE, 3), np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        super().reset(seed=seed)
        # Plain floats: arithmetic on arrays of two numbers takes five times as long.
        self._x, self._y = self._place()
        self._vx = self._vy = 0.0
        self._target = self._place()
        return self._picture(), self._factors()

    def step(self, action: Floats) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        random = self.np_random
        push_x, push_y = (min(max(force, -1.0), 1.0) for force in np.asarray(action).tolist())
        noise_x, noise_y = random.standard_normal(2).tolist()
        self._vx = DRAG * self._vx + FORCE * push_x + NOISE * noise_x
        self._vy = DRAG * self._vy + FORCE * push_y + NOISE * noise_y
        self._x, self._vx = _stopped(self._x + self._vx, self._vx)
        self._y, self._vy = _stopped(self._y + self._vy, self._vy)
        if random.random() < TARGET_JUMP:
            self._target = self._place()
        distance = math.hypot(self._x - self._target[0], self._y - self._target[1])
        return self._picture(), math.exp(-SHARPNESS * distance), False, False, self._factors()

    def _place(self) -> tuple[float, float]:
        return 2 * self.np_random.random() - 1, 2 * self.np_random.random() - 1

    def _picture(self) -> Image:
        image = self._blank.copy()
        _draw(image[..., :1], *self._target, TARGET)
        _draw(image[..., 1:], self._x, self._y, AGENT)
        return image

    def _factors(self) -> dict[str, Any]:
        return {
            "agent": np.array([self._x, self._y], np.float32),
            "velocity": np.array([self._vx, self._vy], np.float32),
            "target": np.array(self._target, np.float32),
        }

    def render(self) -> Image | None:
        return enlarge(self._picture()) if self.render_mode == "rgb_array" else None


def _stopped(position: float, velocity: float) -> tuple[float, float]:
    """The position kept between the walls, and no velocity into one."""
    if -1.0 <= position <= 1.0:
        return position, velocity
    return math.copysign(1.0, position), 0.0


def _draw(channels: Image, x: float, y: float, diameter: int) -> None:
    """Draw a disc at (x, y) in [−1, 1]²; at the walls the larger one touches the edge."""
    steps = PHASES * (SIZE - TARGET - 1)  # one pixel less, for the shifted discs
    margin = PHASES * (TARGET - diameter) // 2
    left, phase_x = divmod(round((x + 1) / 2 * steps) + margin, PHASES)
    top, phase_y = divmod(round((y + 1) / 2 * steps) + margin, PHASES)
    sprite = disc(diameter, 255, phase_x, phase_y)
    channels[top : top + diameter + 1, left : left + diameter + 1] = sprite[..., None]


def reach_controller(info: dict[str, Any]) -> Floats:
    """The force after which the mass is on the target, or as near as forces go; of true factors."""
    wanted = (info["target"] - info["agent"] - DRAG * info["velocity"]) / FORCE
    force: Floats = np.clip(wanted, -1.0, 1.0).astype(np.float32)
    return force
