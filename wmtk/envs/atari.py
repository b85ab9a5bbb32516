"""Atari with the rules of the DreamerV2 paper, on ale-py's emulator interface for speed."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from wmtk.area_resize import AreaScaler
from wmtk.envs.task_options import AtariOptions, did_you_mean
from wmtk.errors import MissingDependencyError, TaskError

try:
    import ale_py
    from ale_py import roms
except ImportError as error:
    raise MissingDependencyError("ale-py", "atari", "An Atari task") from error

Image = NDArray[np.uint8]

# Games without a single-player mode; ale-py registers no environments for them either.
TWO_PLAYER = frozenset(["combat", "joust", "maze_craze", "warlords"])
VIA = 84  # pixels: the paper first scales frames to 84 × 84
POOLED = 2  # frames: the maximum shows objects that a game draws on every second frame only


def games() -> list[str]:
    """ROM names of all single-player games, in ale-py's snake case."""
    return sorted(set(roms.get_all_rom_ids()) - TWO_PLAYER)


def ale_id(rom: str) -> str:
    return f"ALE/{rom.title().replace('_', '')}-v5"


def find_rom(task: str) -> str:
    """The ROM of `atari_<game>` or `ALE/<Game>-v5`."""
    if task.startswith("ALE/"):
        by_id = {ale_id(rom): rom for rom in games()}
        if task not in by_id:
            raise TaskError(f"Unknown Atari task '{task}'.", did_you_mean(task, by_id))
        return by_id[task]
    # ale-py writes `jamesbond`, the literature `james_bond`: compared without underscores.
    by_name = {rom.replace("_", ""): rom for rom in games()}
    name = task.removeprefix("atari_")
    if name.replace("_", "") not in by_name:
        known = [f"atari_{rom}" for rom in games()]
        raise TaskError(f"Unknown Atari task '{task}'.", did_you_mean(task, known))
    return by_name[name.replace("_", "")]


class AtariEnv(gym.Env[Image, np.int64]):
    """An Atari game. Observations are uint8 (size, size, 1), or (size, size, 3) with `rgb`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (gymnasium's)

    def __init__(
        self, rom: str, options: AtariOptions | None = None, render_mode: str | None = None
    ) -> None:
        self.rom = rom
        self.options = options = options or AtariOptions()
        self.render_mode = render_mode
        # Set before the first ALEInterface, whose construction prints a banner otherwise.
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", options.sticky)
        # 0 disables the emulator's limit. `step` counts frames after the no-ops instead, so that
        # the limit coincides with an agent step.
        self.ale.setInt("max_num_frames_per_episode", 0)
        self._loaded = False
        if options.full_action_space:
            self.actions = list(ale_py.Action.__members__.values())
        else:
            self._load(None)
            self.actions = self.ale.getMinimalActionSet()
        channels = 3 if options.rgb else 1
        shape = (options.size, options.size, channels)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(len(self.actions))
        self._frames = 0
        self._over = True

    def _load(self, seed: int | None) -> None:
        """Load the ROM, which takes 0.1 s. The emulator's generator is seeded only by loading."""
        if seed is not None:
            self.ale.setInt("random_seed", seed)
        path = roms.get_rom_path(self.rom)
        assert path is not None, self.rom
        self.ale.loadROM(path)
        self._loaded = True
        height, width = self.ale.getScreenDims()
        shape = (height, width, 3) if self.options.rgb else (height, width)
        self._screens = [np.zeros(shape, np.uint8) for _ in range(POOLED)]
        size = self.options.size
        self._shrink = AreaScaler(height, width, size, via=VIA if size < VIA else None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Image, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None or not self._loaded:
            # The emulator draws the sticky actions: a seed makes them reproducible.
            self._load(int(self.np_random.integers(1, 2**31)))
        self.ale.reset_game()
        noop_max = self.options.noop_max
        noops = int(self.np_random.integers(1, noop_max + 1)) if noop_max else 0
        for _ in range(noops):
            self.ale.act(0)
            if self.ale.game_over():
                self.ale.reset_game()
        self._frames, self._over = 0, False
        self._grab(self._screens[0])
        return self._shrink(self._screens[0]), {}

    def step(self, action: np.int64 | int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        assert not self._over, "step() after the end of an episode: call reset() first"
        ale, repeat = self.ale, self.options.repeat
        key = self.actions[action]
        previous, last = self._screens
        # After game over the emulator ignores actions and keeps the last screen, so both screens
        # are of this step even if the game ends before the last repeat.
        reward = 0
        for frame in range(1, repeat + 1):
            reward += ale.act(key)
            if frame == repeat - 1:
                self._grab(previous)
        self._grab(last)
        if repeat > 1:
            np.maximum(previous, last, out=last)
        self._frames += repeat
        terminated = ale.game_over()
        truncated = not terminated and self._frames >= self.options.time_limit
        self._over = terminated or truncated
        return self._shrink(last), float(reward), terminated, truncated, {}

    def _grab(self, screen: Image) -> None:
        if self.options.rgb:
            self.ale.getScreenRGB(screen)
        else:
            self.ale.getScreenGrayscale(screen)

    def render(self) -> Image | None:
        return self.ale.getScreenRGB() if self.render_mode == "rgb_array" else None

    def get_action_meanings(self) -> list[str]:
        return [action.name for action in self.actions]
