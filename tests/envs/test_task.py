from __future__ import annotations

import json
import pickle
import sys
import textwrap
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import wmtk.envs
from wmtk.envs import gymnasium_env, known_tasks, make_env, resolve, task_of
from wmtk.envs.task_options import did_you_mean
from wmtk.errors import (
    ConfigError,
    EnvCreationError,
    MissingDependencyError,
    SpaceError,
    TaskError,
    UsageError,
)

CUSTOM = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class CameraEnv(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, height=80, render_mode=None):
        self.render_mode = render_mode
        image = spaces.Box(0, 255, (height, 100, 3), np.uint8)
        grid = spaces.Box(0, 10, (7, 7, 3), np.uint8)
        vector = spaces.Box(-1, 1, (3,), np.float32)
        self.observation_space = spaces.Dict({"image": image, "grid": grid, "vector": vector})
        self.action_space = spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), 1.0, self.steps == 7, False, {"steps": self.steps}

    def _obs(self):
        image = np.zeros(self.observation_space["image"].shape, np.uint8)
        image[:, :50] = 200
        return {
            "image": image,
            "grid": np.full((7, 7, 3), 3, np.uint8),
            "vector": self.np_random.uniform(-1, 1, 3).astype(np.float32),
        }


class VectorEnv(CameraEnv):
    def __init__(self, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def _obs(self):
        return np.zeros(3, np.float32)

    def render(self):
        return np.full((120, 90, 3), 50, np.uint8)


class BlindEnv(VectorEnv):
    def render(self):
        raise gym.error.DependencyNotInstalled("pip install glass")


class TextEnv(CameraEnv):
    def __init__(self):
        self.observation_space = spaces.Text(10)
        self.action_space = spaces.Discrete(2)


class MissionEnv(CameraEnv):
    def __init__(self):
        super().__init__()
        pair = spaces.Tuple([spaces.Discrete(2), spaces.Sequence(spaces.Discrete(2))])
        inner = spaces.Dict({"hint": spaces.Text(9), "clock": spaces.Discrete(8)})
        known = self.observation_space.spaces
        more = {"mission": spaces.Text(10), "inner": inner, "pair": pair}
        self.observation_space = spaces.Dict({**known, **more})

    def _obs(self):
        inner = {"hint": "left", "clock": 3}
        return {**super()._obs(), "mission": "go", "inner": inner, "pair": (1, (0, 1))}


class DictActionEnv(CameraEnv):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Dict({"a": spaces.Discrete(2)})


def broken():
    raise ValueError("no such file")


def nothing():
    return 3


if "Camera-v0" not in gym.registry:
    gym.register(id="Camera-v0", entry_point=f"{__name__}:CameraEnv", max_episode_steps=50)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable module that is not ours, installed with entry points."""
    (tmp_path / "my_cameras.py").write_text(textwrap.dedent(CUSTOM))
    info = tmp_path / "my_cameras-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-cameras\nVersion: 1.2\n")
    (info / "top_level.txt").write_text("my_cameras\n")
    points = "camera = my_cameras:CameraEnv\nbad = my_cameras:gone\nworse = not_there:X\n"
    (info / "entry_points.txt").write_text(f"[wmtk.envs]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield "my_cameras"
    gym.registry.pop("Camera-v0", None)
    sys.modules.pop("my_cameras", None)


def test_a_module_registers_its_environments(package: str) -> None:
    resolved = resolve("my_cameras:Camera-v0", kwargs={"height": 90})
    assert (resolved.kind, resolved.env_id) == ("module", "Camera-v0")
    assert resolved.versions["my-cameras"] == "1.2"
    env = pickle.loads(pickle.dumps(resolved)).make()
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert obs["image"].shape == (64, 64, 3)
    assert set(obs["image"][0, :, 0]) == {0, 200}
    assert obs["grid"].shape == (7, 7, 3), "a grid of symbols is no picture"
    assert resolve("my_cameras:Camera-v0", size=0).make().reset()[0]["image"].shape[1] == 100


def test_a_module_attribute_will_do(package: str) -> None:
    env = make_env("my_cameras:CameraEnv", time_limit=3)
    env.reset(seed=0)
    assert [env.step(env.action_space.sample())[3] for _ in range(3)] == [False, False, True]


def test_a_module_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here_only.py").write_text(textwrap.dedent(CUSTOM))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert make_env("here_only:VectorEnv").observation_space.shape == (3,)
    sys.modules.pop("here_only")
    gym.registry.pop("Camera-v0", None)


def test_entry_points(package: str) -> None:
    resolved = resolve("camera")
    assert (resolved.kind, resolved.versions["my-cameras"]) == ("entry_point", "1.2")
    assert "my_cameras" not in sys.modules, "nothing is loaded before it is made"
    assert resolved.make().action_space == gym.spaces.MultiDiscrete([3, 2])
    with pytest.raises(EnvCreationError, match="bad"):
        make_env("bad")
    with pytest.raises(EnvCreationError, match="not_there"):
        make_env("worse")
    with pytest.raises(TaskError, match="'camera'"):
        resolve("camerra")


def test_keys_that_cannot_be_stored_are_named_with_the_option_that_drops_them(package) -> None:
    with pytest.raises(SpaceError, match="mission: Text spaces") as refused:
        make_env("my_cameras:MissionEnv")
    option = "-inner/hint,-mission,-pair/_index_1"
    assert f"obs_keys='{option}'" in refused.value.hint
    env = make_env("my_cameras:MissionEnv", obs_keys=option)
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert obs.keys() == {"grid", "image", "vector", "inner", "pair"}
    assert obs["inner"] == {"clock": 3}
    assert obs["pair"] == (1,)
    assert obs["image"].shape == (64, 64, 3), "what is kept is resized as ever"


def test_keys_are_chosen(package: str) -> None:
    env = make_env("my_cameras:MissionEnv", obs_keys="image,inner/clock")
    assert env.reset(seed=0)[0].keys() == {"image", "inner"}
    assert env.observation_space.contains(env.step(env.action_space.sample())[0])
    with pytest.raises(ConfigError, match="no observation key 'vectr'") as misspelled:
        make_env("my_cameras:MissionEnv", obs_keys="vectr")
    assert "Did you mean 'vector'?" in misspelled.value.hint
    assert make_env("wmtk/Catch-v0", obs_keys="image").observation_space.shape == (64, 64, 1)


def test_an_id_of_a_known_package_names_its_module(monkeypatch) -> None:
    for found, hint in ((None, "pip install minigrid"), (object(), "Did you mean")):
        monkeypatch.setattr(gymnasium_env, "find_spec", lambda _, found=found: found)
        with pytest.raises(TaskError, match="Unknown task") as unknown:
            resolve("MiniGrid-Empty-5x5-v0")
        assert hint in unknown.value.hint
        assert "'minigrid:MiniGrid-Empty-5x5-v0'" in unknown.value.hint


def test_actions_repeat_and_rewards_add_up(package: str) -> None:
    env = make_env("my_cameras:Camera-v0", repeat=3)
    env.reset(seed=0)
    steps = [env.step(env.action_space.sample()) for _ in range(3)]
    assert [step[1] for step in steps] == [3.0, 3.0, 1.0]
    assert [step[2] for step in steps] == [False, False, True]


def test_the_rendering_becomes_an_observation(package: str) -> None:
    env = make_env("my_cameras:VectorEnv", render=True)
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert obs["image"].shape == (64, 64, 3)
    assert (obs["image"] == 50).all()
    assert obs["state"].shape == (3,)


def test_a_rendering_that_fails_is_said(package: str) -> None:
    with pytest.raises(EnvCreationError, match="a package: pip install glass"):
        make_env("my_cameras:BlindEnv", render=True)


@pytest.mark.parametrize(
    ("task", "error", "text"),
    [
        ("my_cameras:Camra-v0", TaskError, "'Camera-v0'"),
        ("my_camera:Camera-v0", TaskError, "no module 'my_camera'"),
        ("my_cameras:broken", EnvCreationError, "no such file"),
        ("my_cameras:nothing", EnvCreationError, "int"),
        ("my_cameras:TextEnv", SpaceError, "Text"),
        ("my_cameras:DictActionEnv", SpaceError, "Dict"),
    ],
)
def test_what_goes_wrong_is_said(
    package: str, task: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make_env(task)


@pytest.mark.parametrize(
    ("task", "nearest"),
    [
        ("CartPole-v7", "CartPole-v1"),
        ("cartpole", "CartPole-v1"),
        ("wmtk/Cach-v0", "wmtk/Catch-v0"),
        ("walker_walk", "dmc_walker_walk"),
        ("PongNoFrameskip-v4", "atari_pong"),
    ],
)
def test_wrong_tasks_get_the_nearest_right_one(task: str, nearest: str) -> None:
    if nearest not in known_tasks():
        pytest.skip("the package is not installed")
    with pytest.raises(UsageError, match=nearest):
        resolve(task)


def test_options_are_checked() -> None:
    with pytest.raises(TaskError, match="'time_limit'"):
        resolve("CartPole-v1", timelimit=3)
    with pytest.raises(TaskError, match=r'as kwargs={"gravity": …}'):
        resolve("CartPole-v1", gravity=3)
    with pytest.raises(TaskError, match="from 1 to 10000"):
        resolve("CartPole-v1", repeat=0)
    with pytest.raises(TaskError, match="true or false"):
        resolve("CartPole-v1", render="maybe")
    with pytest.raises(TaskError, match="reset"):
        resolve("CartPole-v1", seed=0)
    with pytest.raises(TaskError, match="stored"):
        resolve("CartPole-v1", kwargs={"x": object()})
    text = resolve(
        "CartPole-v1", repeat="2", time_limit="null", kwargs='{"sutton_barto_reward": 1}'
    )
    assert text.kwargs["kwargs"] == {"sutton_barto_reward": 1}
    assert (text.action_repeat, text.kwargs["time_limit"]) == (2, None)


@pytest.mark.parametrize(
    "values",
    [
        {"size": "9" * 5000},  # more digits than Python reads
        {"size": "[" * 100_000},
        {"kwargs": '{"a":' + "[" * 100_000},
        {"kwargs": '{"a":' * 900 + "1" + "}" * 900},
    ],
)
def test_texts_that_are_no_options_are_refused(values) -> None:
    """They may be from a file, whose depth is checked only where it is not text."""
    recorded = {**resolve("CartPole-v1").settings, **values}
    for wrong in (lambda: resolve("CartPole-v1", **values), lambda: task_of(recorded)):
        with pytest.raises(TaskError, match="is invalid") as refused:
            wrong()
        assert len(refused.value.message) < 300


def test_options_that_are_nested_too_deeply_are_refused() -> None:
    nested: dict[str, object] = {}
    for _ in range(2000):
        nested = {"a": nested}
    with pytest.raises(TaskError, match="cannot be stored"):
        resolve("CartPole-v1", kwargs=nested)


def test_settings_are_ready_for_json() -> None:
    settings = resolve("wmtk/Catch-v0", repeat=2).settings
    assert json.loads(json.dumps(settings)) == settings
    assert settings["repeat"] == 2
    assert settings["versions"]["gymnasium"] == gym.__version__


def test_a_time_limit_of_its_own_counts_simulator_steps() -> None:
    env = make_env("wmtk/Reach-v0", time_limit=10, repeat=2)
    env.reset(seed=0)
    push = np.zeros(2, np.float32)
    assert [env.step(push)[3] for _ in range(5)] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("task", "module", "package"),
    [("atari_pong", "atari", "ale_py"), ("dmc_a_b", "dmc", "dm_control")],
)
def test_a_missing_package_is_named_with_its_extra(
    task: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"wmtk.envs.{module}", raising=False)
    monkeypatch.delattr(wmtk.envs, module, raising=False)
    with pytest.raises(MissingDependencyError, match=rf"wmtk\[{module}\]"):
        resolve(task)


def test_suggestions() -> None:
    assert did_you_mean("stiky", ["sticky", "size"]) == "Did you mean 'sticky'?"
    assert did_you_mean("xyzzy", ["sticky", "size"]) == ""
