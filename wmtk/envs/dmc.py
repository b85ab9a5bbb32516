"""The DeepMind Control Suite, with observations of pixels, of the state, or of both."""

from __future__ import annotations

import logging
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from wmtk.envs.rendering import HINT, choose_backend, require_backend
from wmtk.envs.task_options import DmcOptions, did_you_mean
from wmtk.errors import MissingDependencyError, RenderingError, TaskError

BACKEND = choose_backend()
try:
    from dm_control import suite
except ModuleNotFoundError as error:
    if error.name not in {"dm_control", "mujoco", "dm_env"}:
        raise
    raise MissingDependencyError(error.name, "dmc", "A dm_control task") from error
except (ImportError, AttributeError, RuntimeError) as error:
    # PyOpenGL fails with any of these when the library behind MUJOCO_GL is missing.
    message = f"MuJoCo cannot draw with the backend MUJOCO_GL={BACKEND} ({error})."
    raise RenderingError(message, HINT) from error

Image = NDArray[np.uint8]
Observation = Any  # an image, or a dict of arrays

CAMERAS = {"quadruped": 2}  # from the side, as in the published results
ALIASES = {"cup": "ball_in_cup", "pointmass": "point_mass"}  # names used in the literature


def tasks() -> dict[str, tuple[str, str]]:
    """Every task of the suite by name, e.g. dmc_ball_in_cup_catch: (ball_in_cup, catch)."""
    return {f"dmc_{domain}_{task}": (domain, task) for domain, task in suite.ALL_TASKS}


def find_task(name: str) -> tuple[str, str]:
    known = tasks()
    for alias, domain in ALIASES.items():
        if name.startswith(f"dmc_{alias}_"):
            name = name.replace(alias, domain, 1)
    if name not in known:
        raise TaskError(f"Unknown dm_control task '{name}'.", did_you_mean(name, known))
    return known[name]


def camera(domain: str, options: DmcOptions) -> int:
    return CAMERAS.get(domain, 0) if options.camera is None else options.camera


def _load(domain: str, task: str) -> Any:
    """The suite's environment without its time limit: `time_limit` may exceed it."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)  # hides MuJoCo's warnings about the suite's own model files
    try:
        return suite.load(domain, task, task_kwargs={"time_limit": float("inf")})
    finally:
        logger.setLevel(level)


class DmcEnv(gym.Env[Observation, NDArray[np.float32]]):
    """A task of the suite. Actions lie in [−1, 1]; rewards are summed over action repeats.

    Observations: obs="pixels" is the image alone, uint8 (size, size, 3); obs="state" is a dict of
    the task's arrays as float32; obs="both" is that dict with the key "image" added.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}  # noqa: RUF012 (gymnasium's)

    def __init__(
        self,
        domain: str,
        task: str,
        options: DmcOptions | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.options = options = options or DmcOptions()
        self.render_mode = render_mode
        if options.obs != "state":
            require_backend()
        self._env = _load(domain, task)
        self._camera = camera(domain, options)
        cameras = self._env.physics.model.ncam
        if self._camera >= cameras:
            message = f"{domain} has no camera {self._camera}."
            raise TaskError(message, f"Its cameras are 0 to {cameras - 1}.")
        self._size_buffers()
        spec = self._env.action_spec()
        # Unbounded actions (±1e10 by the suite's convention, as in lqr) are not scaled.
        bounded = np.abs([spec.minimum, spec.maximum]).max(0) < 1e9
        self._low = np.where(bounded, spec.minimum, -1.0)
        self._high = np.where(bounded, spec.maximum, 1.0)
        self.action_space = spaces.Box(-1.0, 1.0, spec.shape, np.float32)
        self.observation_space = self._space()
        self._steps = 0

    def _size_buffers(self) -> None:
        """Shrink the off-screen buffer from 640 × 480: faster without a GPU, with equal images."""
        visual = self._env.physics.model.vis
        visual.global_.offwidth = visual.global_.offheight = self.options.size
        if self.options.shadow_size is not None:
            visual.quality.shadowsize = self.options.shadow_size

    def _space(self) -> spaces.Space[Any]:
        size = self.options.size
        image = spaces.Box(0, 255, (size, size, 3), np.uint8)
        if self.options.obs == "pixels":
            return image
        state: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(-np.inf, np.inf, spec.shape, np.float32)
            for name, spec in self._env.observation_spec().items()
        }
        return spaces.Dict(state if self.options.obs == "state" else {"image": image, **state})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        first = self._np_random is None
        super().reset(seed=seed)
        if seed is not None or first:
            self._env.task.random.seed(int(self.np_random.integers(2**32)))
        self._steps = 0
        return self._observe(self._env.reset().observation), {}

    def step(
        self, action: NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        clipped = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        scaled = self._low + (clipped + 1) / 2 * (self._high - self._low)
        reward, terminated, truncated = 0.0, False, False
        for _ in range(self.options.repeat):
            time_step = self._env.step(scaled)
            reward += time_step.reward or 0.0
            self._steps += 1
            # In the suite, discount 0 marks a terminal state; any other end is a time limit.
            terminated = time_step.last() and time_step.discount == 0
            truncated = not terminated and (
                time_step.last() or self._steps >= self.options.time_limit
            )
            if terminated or truncated:
                break
        return self._observe(time_step.observation), reward, terminated, truncated, {}

    def _observe(self, arrays: dict[str, Any]) -> Observation:
        if self.options.obs == "pixels":
            return self._draw()
        state = {name: np.asarray(value, np.float32) for name, value in arrays.items()}
        return state if self.options.obs == "state" else {"image": self._draw(), **state}

    def _draw(self) -> Image:
        size = self.options.size
        try:
            image = self._env.physics.render(size, size, camera_id=self._camera)
        except Exception as error:  # PyOpenGL's errors have no common base
            raise RenderingError(f"MuJoCo cannot draw on this machine ({error}).", HINT) from error
        return np.ascontiguousarray(image, np.uint8)

    def render(self) -> Image | None:
        return self._draw() if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Free the OpenGL context; some backends print errors at exit otherwise."""
        self._env.close()
