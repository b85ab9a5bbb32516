"""wmtk/Catch-v0: catch falling balls whose horizontal drift changes at random."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from wmtk.envs.drawing import SIZE, disc, enlarge

Image = NDArray[np.uint8]

BALLS = 5  # per episode
BALL = 12  # pixels; a much smaller ball contributes too little to a reconstruction loss
PADDLE_WIDTH, PADDLE_HEIGHT = 16, 6
BRIGHTNESS_BALL, BRIGHTNESS_PADDLE, BRIGHTNESS_MARK = 255, 160, 120
MARK_WIDTH, MARK_HEIGHT, MARK_PITCH = 10, 3, 13  # at the top, one mark per remaining ball
FALL = 15  # steps from the top to the paddle: the reward lies within a horizon of 15
PADDLE_SPEED = 2  # pixels per step; a paddle that only follows the ball misses one ball in ten
MAX_DRIFT = 3  # pixels per step, drawn uniformly from −3 … 3
DRIFT_CHANGE = 0.1  # probability per step
BALL_RANGE, PADDLE_RANGE = SIZE - BALL, SIZE - PADDLE_WIDTH  # left edges lie in 0 … range
TOP = MARK_HEIGHT + 1
HEIGHTS = [TOP + round(t * (SIZE - PADDLE_HEIGHT - BALL - TOP) / FALL) for t in range(FALL + 1)]
EPISODE_STEPS = BALLS * (FALL + 1) - 1

# Mean undiscounted returns, computed exactly by `wmtk.envs.catch_solver` (dynamic programming over
# the true state). A policy on images can reach the optimum too: the difference of the last two
# images is the drift, and changes of the drift are unpredictable from the true state as well.
RANDOM_RETURN = -1.742
OPTIMAL_RETURN = 4.881


def caught(ball: Any, paddle: Any) -> Any:
    """Whether the ball's center is above the paddle. Both arguments are left edges in pixels."""
    return (ball + BALL / 2 >= paddle) & (ball + BALL / 2 <= paddle + PADDLE_WIDTH)


def _background(balls_left: int) -> Image:
    """The image without ball and paddle: one mark per remaining ball."""
    image = np.zeros((SIZE, SIZE, 1), np.uint8)
    for start in range(1, 1 + MARK_PITCH * balls_left, MARK_PITCH):
        image[:MARK_HEIGHT, start : start + MARK_WIDTH] = BRIGHTNESS_MARK
    return image


class CatchEnv(gym.Env[Image, np.int64]):
    """Catch falling balls. Actions: left, stay, right. Reward: +1 per caught, −1 per missed ball.

    In each step the paddle moves, then the ball falls. The drift of the ball is resampled on its
    first step and with probability DRIFT_CHANGE on later ones; at a wall its sign flips. The marks
    at the top count the remaining balls, so the end of an episode can be predicted from the image.
    `info` has the true factors in image coordinates, 0 … 1 from the top left.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (gymnasium's)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)
        self.action_space = spaces.Discrete(3)
        self._ball = disc(BALL, BRIGHTNESS_BALL)[:BALL, :BALL]
        self._backgrounds = [_background(balls_left) for balls_left in range(BALLS + 1)]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        super().reset(seed=seed)
        self._paddle = PADDLE_RANGE // 2
        self._left = BALLS
        self._spawn()
        return self._render_image(), self._factors()

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        move = PADDLE_SPEED * (int(action) - 1)
        self._paddle = min(max(self._paddle + move, 0), PADDLE_RANGE)
        reward = 0.0
        if self._time == FALL:
            self._spawn()
        else:
            self._fall()
            if self._time == FALL:
                reward = 1.0 if caught(self._x, self._paddle) else -1.0
                self._left -= 1
        return self._render_image(), reward, self._left == 0, False, self._factors()

    def _spawn(self) -> None:
        self._time, self._drift = 0, 0
        self._x = int(self.np_random.random() * (BALL_RANGE + 1))

    def _fall(self) -> None:
        # For a single number, `random` is ten times faster than `integers`.
        if self._time == 0 or self.np_random.random() < DRIFT_CHANGE:
            self._drift = int(self.np_random.random() * (2 * MAX_DRIFT + 1)) - MAX_DRIFT
        if not 0 <= self._x + self._drift <= BALL_RANGE:
            self._drift = -self._drift
        self._x += self._drift
        self._time += 1

    def _render_image(self) -> Image:
        image = self._backgrounds[self._left].copy()
        image[-PADDLE_HEIGHT:, self._paddle : self._paddle + PADDLE_WIDTH, 0] = BRIGHTNESS_PADDLE
        top = HEIGHTS[self._time]
        image[top : top + BALL, self._x : self._x + BALL, 0] = self._ball
        return image

    def _factors(self) -> dict[str, Any]:
        center = (self._x + BALL / 2, HEIGHTS[self._time] + BALL / 2)
        return {
            "ball": np.array(center, np.float32) / SIZE,
            "drift": np.float32(self._drift / SIZE),
            "paddle": np.float32((self._paddle + PADDLE_WIDTH / 2) / SIZE),
            "balls_left": np.float32(self._left),
        }

    def render(self) -> Image | None:
        return enlarge(self._render_image()) if self.render_mode == "rgb_array" else None
