"""Environments that misbehave, in a module that worker processes can import."""

from __future__ import annotations

from pathlib import Path

import pytest

MODULE = '''
import os, time
import gymnasium as gym
import numpy as np


class Misbehaving(gym.Env):
    """Five steps an episode; the fault fires in the episodes whose number is in `when`."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault="", when="0", log=""):
        self.fault, self.when, self.log = fault, when, log

    def _episode(self):
        """The number of this episode over all instances: one line of the log for each."""
        with open(self.log, "a") as file:
            file.write("x")
        return str(os.path.getsize(self.log) - 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.faulty = self.when == "always" or self._episode() in self.when.split(",")
        return self._obs(), {"t": 0}

    def _obs(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def step(self, action):
        self.t += 1
        obs, reward = self._obs(), 1.0
        if self.faulty and self.t == 3:
            if self.fault == "raise":
                raise RuntimeError("the simulator blew up")
            if self.fault == "hang":
                time.sleep(1000)
            if self.fault == "die":
                os._exit(7)
            if self.fault == "nan reward":
                reward = float("nan")
            if self.fault == "nan obs":
                obs[0] = np.nan
            if self.fault == "bounds":
                obs[1] = 1.5 + self.np_random.random()
            if self.fault == "rounding":
                obs[1] = np.float32(1.000001)
            if self.fault == "shape":
                obs = np.zeros(3, np.float32)
            if self.fault == "dtype":
                obs = obs.astype(np.float64)
        return obs, reward, self.t == 5, False, {"t": self.t}


gym.register("Misbehaving-v0", entry_point=Misbehaving)


def press_one(obs):
    assert obs.shape == (2,)
    return 1
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable module that registers `Misbehaving-v0`."""
    name = "misbehaving_envs"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return name
