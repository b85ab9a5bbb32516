"""Environments that break Gymnasium's API: the error names the rule and the change."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest

from wmtk.collecting import RandomPolicy, collect_episodes, dataset_for, evaluate_policy, schema_of
from wmtk.envs import make_env, resolve
from wmtk.envs.api_check import CheckApi
from wmtk.errors import EnvironmentApiError, TaskError

MODULE = """
import gymnasium as gym
import numpy as np


class Line(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    color = "red"

    def __init__(self, fault=""):
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        obs = np.zeros(2, np.float32)
        if self.fault == "obs only":
            return obs
        return (obs, obs) if self.fault == "no info" else (obs, {})

    def step(self, action):
        self.t += 1
        obs = np.zeros(2, np.float32)
        if self.fault == "four":
            return obs, 1.0, self.t == 5, {}
        reward = None if self.fault == "reward" else 1.0
        return obs, reward, self.t == 5, False, {}


class Unseeded(Line):
    def reset(self):
        return np.zeros(2, np.float32), {}


class WithoutOptions(Line):
    def reset(self, seed=None):
        return super().reset(seed=seed)


class OldGym:
    pass


gym.register("Line-v0", entry_point=Line, max_episode_steps=50)
"""

FAULTS = {
    "obs only": (
        r"Line\.reset\(\) returned one ndarray instead of \(obs, info\)",
        "return obs, {}",
    ),
    "no info": (r"Line\.reset\(\) returned 2 values instead of \(obs, info\)", "return obs, {}"),
    "four": (r"Line\.step\(\) returned 4 values instead of", "terminated"),
    "reward": (r"Line\.step\(\) returned the reward None", "0.0"),
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "line_envs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "line_envs", raising=False)
    monkeypatch.delitem(gym.registry, "Line-v0", raising=False)
    return "line_envs"


def run(env: gym.Env) -> None:
    env.reset(seed=0)
    env.step(0)


@pytest.mark.parametrize("name", ["Line", "Line-v0"])
@pytest.mark.parametrize("options", [{}, {"repeat": 2}, {"time_limit": 9}], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_rule_is_named_with_the_change(module, name, options, fault) -> None:
    message, change = FAULTS[fault]
    env = make_env(f"{module}:{name}", kwargs={"fault": fault}, **options)
    with pytest.raises(EnvironmentApiError, match=message) as caught:
        run(env)
    assert "Gymnasium's rule" in caught.value.hint
    assert change in caught.value.hint


def test_reset_without_a_seed(module) -> None:
    with pytest.raises(EnvironmentApiError, match=r"Unseeded\.reset\(\) takes no argument seed"):
        run(make_env(f"{module}:Unseeded"))


def test_a_reset_without_options_is_accepted(module) -> None:
    run(make_env(f"{module}:WithoutOptions"))


def test_attributes_of_the_environment_stay_accessible(module) -> None:
    env = make_env(f"{module}:Line")
    assert isinstance(env, CheckApi)
    assert env.color == "red"
    with pytest.raises(AttributeError, match="size"):
        _ = env.size


def test_environments_of_gymnasium_and_wmtk_are_not_wrapped() -> None:
    for task in ("CartPole-v1", "wmtk/Catch-v0"):
        env = make_env(task)
        while isinstance(env, gym.Wrapper):
            assert not isinstance(env, CheckApi)
            env = env.env


def test_classes_of_the_former_gym_are_refused_with_a_way_out(module) -> None:
    with pytest.raises(TaskError, match=r"not a gymnasium\.Env") as caught:
        make_env(f"{module}:OldGym")
    assert "shimmy" in caught.value.hint


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fault", ["four", "reward"])
def test_collecting_stops_at_the_first_violation(module, tmp_path, fault, workers) -> None:
    messages: list[str] = []
    task = resolve(f"{module}:Line", kwargs={"fault": fault})
    policy = RandomPolicy(schema_of(task).action, [0])
    with (
        dataset_for(task, tmp_path / "d") as dataset,
        pytest.raises(EnvironmentApiError, match=FAULTS[fault][0]) as caught,
    ):
        collect_episodes(
            task, dataset, policy, seed=0, episodes=3, workers=workers, on_message=messages.append
        )
    assert caught.value.hint.startswith("Nothing was stored. Gymnasium's rule")
    assert messages == []
    with pytest.raises(EnvironmentApiError):
        evaluate_policy(task, policy, episodes=1, seed=0, workers=workers)


def test_infos_to_store_need_a_valid_reset(module) -> None:
    task = resolve(f"{module}:Line", kwargs={"fault": "obs only"})
    with pytest.raises(EnvironmentApiError, match="instead of"):
        schema_of(task, ["t"])
