from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dm_control")

import dm_env

from wmtk.envs import make_env, rendering, resolve
from wmtk.envs.dmc import DmcEnv, suite  # ours, so that the backend is chosen before
from wmtk.errors import RenderingError, TaskError

draws = pytest.mark.skipif(
    os.environ.get("MUJOCO_GL") == rendering.DISABLED, reason="neither EGL nor OSMesa is installed"
)


@pytest.mark.parametrize(
    ("task", "env_id"),
    [
        ("dmc_walker_walk", "dmc_walker_walk"),
        ("dmc_ball_in_cup_catch", "dmc_ball_in_cup_catch"),
        ("dmc_cup_catch", "dmc_ball_in_cup_catch"),
        ("dmc_point_mass_easy", "dmc_point_mass_easy"),
        ("dmc_humanoid_CMU_run", "dmc_humanoid_CMU_run"),
    ],
)
def test_names(task: str, env_id: str) -> None:
    assert resolve(task).env_id == env_id


def test_wrong_names_get_the_nearest_right_one() -> None:
    with pytest.raises(TaskError, match="dmc_walker_walk"):
        resolve("dmc_walker_wakl")


def test_states_and_rewards_equal_the_suite() -> None:
    env = make_env("dmc_walker_walk", obs="state")
    obs, _ = env.reset(seed=7)
    rng = np.random.Generator(np.random.PCG64(7))
    theirs = suite.load("walker", "walk", {"random": int(rng.integers(2**32))})
    expected = theirs.reset().observation
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 6)).astype(np.float32)
    for action in actions:
        assert obs.keys() == expected.keys()
        assert all(np.allclose(obs[name], expected[name], atol=1e-6) for name in obs)
        assert env.observation_space.contains(obs)
        obs, reward, *_ = env.step(action)
        two = [theirs.step(action), theirs.step(action)]
        assert reward == pytest.approx(two[0].reward + two[1].reward)
        expected = two[1].observation


def test_actions_are_scaled_to_the_bounds_of_the_task() -> None:
    env = make_env("dmc_quadruped_walk", obs="state", repeat=1)
    assert isinstance(env, DmcEnv)
    assert (env.action_space.low == -1).all()  # type: ignore[attr-defined]
    spec = env._env.action_spec()
    assert spec.maximum.max() > 1
    env.reset(seed=0)
    for action, bound in ((1.0, spec.maximum), (-1.0, spec.minimum), (5.0, spec.maximum)):
        env.step(np.full(spec.shape, action, np.float32))
        assert np.allclose(env._env.physics.control(), bound)


def test_the_time_limit_truncates() -> None:
    env = make_env("dmc_cartpole_balance", obs="state")
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(500)]
    assert ends == [(False, False)] * 499 + [(False, True)]


@pytest.mark.parametrize(("discount", "end"), [(0.0, (True, False)), (1.0, (False, True))])
def test_only_discount_0_terminates(
    discount: float, end: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make_env("dmc_cartpole_balance", obs="state")
    assert isinstance(env, DmcEnv)
    env.reset(seed=0)
    observation = env._env.step(np.zeros(1)).observation
    last = dm_env.TimeStep(dm_env.StepType.LAST, 1.0, discount, observation)
    monkeypatch.setattr(env._env, "step", lambda action: last)
    assert env.step(np.zeros(1, np.float32))[1:4] == (1.0, *end)


def test_the_same_seed_gives_the_same_start() -> None:
    env = make_env("dmc_walker_walk", obs="state")
    first, again, other = (env.reset(seed=seed)[0]["orientations"] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@draws
def test_pixels() -> None:
    env = make_env("dmc_cartpole_balance")
    obs, _ = env.reset(seed=0)
    assert obs.shape == (64, 64, 3) == env.observation_space.shape
    assert obs.dtype == np.uint8
    theirs = suite.load("cartpole", "balance", {"random": 0})
    theirs.physics.set_state(env._env.physics.get_state())  # type: ignore[attr-defined]
    theirs.physics.forward()
    assert (obs == theirs.physics.render(64, 64, camera_id=0)).all()
    for _ in range(5):
        moved = env.step(np.ones(1, np.float32))[0]
    assert (moved != obs).any()
    theirs.physics.free()
    env.close()


@draws
def test_the_quadruped_has_its_own_camera_and_both_kinds_come_together() -> None:
    resolved = resolve("dmc_quadruped_walk", obs="both")
    assert resolved.settings["camera"] == 2
    assert resolve("dmc_quadruped_walk", camera=0).settings["camera"] == 0
    env = resolved.make()
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert obs["image"].shape == (64, 64, 3)
    assert obs["egocentric_state"].dtype == np.float32
    env.close()


@draws
def test_humanoid_walk() -> None:
    env = make_env("dmc_humanoid_walk")
    env.reset(seed=0)
    obs, reward, terminated, truncated, _ = env.step(np.zeros(21, np.float32))
    assert obs.std() > 5
    assert 0 <= reward <= 2
    assert not terminated
    assert not truncated
    env.close()


def test_a_camera_that_is_not_there() -> None:
    with pytest.raises(TaskError, match="no camera 9"):
        make_env("dmc_walker_walk", camera=9)


@pytest.mark.parametrize(
    ("egl", "osmesa", "chosen"),
    [(True, True, "egl"), (False, True, "osmesa"), (False, False, rendering.DISABLED)],
)
def test_the_backend_is_chosen(
    egl: bool, osmesa: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(rendering.sys.modules, "dm_control._render")
    monkeypatch.setattr(rendering.sys, "platform", "linux")
    monkeypatch.setattr(rendering, "has_egl", lambda: egl)
    monkeypatch.setattr(rendering, "has_osmesa", lambda: osmesa)
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert rendering.choose_backend() == "glfw"
    monkeypatch.delenv("MUJOCO_GL")
    assert rendering.choose_backend() == chosen
    monkeypatch.setattr(rendering.sys, "platform", "darwin")
    monkeypatch.delenv("MUJOCO_GL")
    assert rendering.choose_backend() == ""


def test_no_backend_is_an_error_for_pictures_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", rendering.DISABLED)
    with pytest.raises(RenderingError, match="apt-get install libegl1 libgl1-mesa-dri"):
        make_env("dmc_cartpole_balance")
    make_env("dmc_cartpole_balance", obs="state").reset(seed=0)


def test_a_backend_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no context")

    monkeypatch.setenv("MUJOCO_GL", "egl")
    env = make_env("dmc_cartpole_balance")
    monkeypatch.setattr(env._env.physics, "render", fail)  # type: ignore[attr-defined]
    with pytest.raises(RenderingError, match="no context"):
        env.reset(seed=0)
