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

# Diameters in pixels; much smaller discs contribute too little to a reconstruction loss.
AGENT, TARGET = 16, 22
# velocity' = DRAG · velocity + FORCE · action + NOISE · N(0, 1). A random action moves the mass by
# several pixels; with weaker forces, models learned to ignore actions.
DRAG, FORCE = 0.3, 0.25
NOISE = 0.02
TARGET_JUMP = 0.03  # probability per step
SHARPNESS = 2.0  # reward = exp(−SHARPNESS · distance)
EPISODE_STEPS = 100

# Mean undiscounted returns over 20,000 episodes, with standard errors of 0.05 and 0.03.
# CONTROLLER_RETURN is the return of `reach_controller`, which is near the optimum but not proven
# to be optimal.
RANDOM_RETURN = 18.1
CONTROLLER_RETURN = 88.0


class ReachEnv(gym.Env[Image, Floats]):
    """Push a point mass to a target. Actions: a force in [−1, 1]². Reward in (0, 1], 1 on target.

    Positions lie in [−1, 1]², x to the right and y down as in the image; the walls stop the mass.
    The target jumps with a fixed probability, wherever the mass is: if reaching it caused the jump,
    the best policy would wait just outside of it. The mass is cyan, the target red, their overlap
    white.
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
        self._x, self._y = self._random_position()
        self._vx = self._vy = 0.0
        self._target = self._random_position()
        return self._render_image(), self._factors()

    def step(self, action: Floats) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        random = self.np_random
        push_x, push_y = (min(max(force, -1.0), 1.0) for force in np.asarray(action).tolist())
        noise_x, noise_y = random.standard_normal(2).tolist()
        self._vx = DRAG * self._vx + FORCE * push_x + NOISE * noise_x
        self._vy = DRAG * self._vy + FORCE * push_y + NOISE * noise_y
        self._x, self._vx = _stop_at_wall(self._x + self._vx, self._vx)
        self._y, self._vy = _stop_at_wall(self._y + self._vy, self._vy)
        if random.random() < TARGET_JUMP:
            self._target = self._random_position()
        distance = math.hypot(self._x - self._target[0], self._y - self._target[1])
        return self._render_image(), math.exp(-SHARPNESS * distance), False, False, self._factors()

    def _random_position(self) -> tuple[float, float]:
        return 2 * self.np_random.random() - 1, 2 * self.np_random.random() - 1

    def _render_image(self) -> Image:
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
        return enlarge(self._render_image()) if self.render_mode == "rgb_array" else None


def _stop_at_wall(position: float, velocity: float) -> tuple[float, float]:
    """Clip the position to [−1, 1]; the velocity becomes 0 at a wall."""
    if -1.0 <= position <= 1.0:
        return position, velocity
    return math.copysign(1.0, position), 0.0


def _draw(channels: Image, x: float, y: float, diameter: int) -> None:
    """Draw a disc at (x, y) in [−1, 1]². At ±1 a disc of diameter TARGET touches the image's edge.

    `channels` (SIZE, SIZE, channels) is modified in place.
    """
    steps = PHASES * (SIZE - TARGET - 1)  # discs with a sub-pixel shift are one pixel larger
    margin = PHASES * (TARGET - diameter) // 2
    left, phase_x = divmod(round((x + 1) / 2 * steps) + margin, PHASES)
    top, phase_y = divmod(round((y + 1) / 2 * steps) + margin, PHASES)
    sprite = disc(diameter, 255, phase_x, phase_y)
    channels[top : top + diameter + 1, left : left + diameter + 1] = sprite[..., None]


def reach_controller(info: dict[str, Any]) -> Floats:
    """The force that moves the mass onto the target in one step, clipped to [−1, 1]².

    `info` is that of `ReachEnv`, with the true factors.
    """
    unclipped = (info["target"] - info["agent"] - DRAG * info["velocity"]) / FORCE
    force: Floats = np.clip(unclipped, -1.0, 1.0).astype(np.float32)
    return force
