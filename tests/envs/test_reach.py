from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from wmtk.envs import make_env, reach
from wmtk.envs.reach import ReachEnv, reach_controller


def returns(policy: object, episodes: int) -> np.ndarray:
    env = ReachEnv()
    totals = []
    _, info = env.reset(seed=0)
    for _ in range(episodes):
        _, info = env.reset()
        total = 0.0
        for _ in range(reach.EPISODE_STEPS):
            _, reward, _, _, info = env.step(policy(info))  # type: ignore[operator]
            assert 0.0 < reward <= 1.0
            total += reward
        totals.append(total)
    return np.array(totals)


def test_gymnasium_accepts_it() -> None:
    check_env(gym.make("wmtk/Reach-v0", render_mode="rgb_array").unwrapped)


def test_it_ends_by_the_time_limit_alone() -> None:
    env = make_env("wmtk/Reach-v0")
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(100)]
    assert ends == [(False, False)] * 99 + [(False, True)]


def test_the_environment_gives_the_documented_returns() -> None:
    rng = np.random.default_rng(0)
    random = returns(lambda info: rng.uniform(-1, 1, 2), 120)
    controlled = returns(reach_controller, 120)
    for sample, expected in ((random, reach.RANDOM_RETURN), (controlled, reach.CONTROLLER_RETURN)):
        assert abs(sample.mean() - expected) < 4 * sample.std() / len(sample) ** 0.5


def test_the_picture_shows_the_factors() -> None:
    env = ReachEnv(render_mode="rgb_array")
    obs, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        for name, channel in (("target", 0), ("agent", 1)):
            weights = obs[..., channel].astype(float)
            ys, xs = np.mgrid[:64, :64] + 0.5
            seen = np.array([(weights * xs).sum(), (weights * ys).sum()]) / weights.sum()
            edge, free = reach.TARGET / 2, 64 - reach.TARGET - 1
            position = (seen - edge) / free * 2 - 1
            assert np.allclose(position, info[name], atol=2 * 0.3 / free * 2)
        assert all(value.dtype == np.float32 and value.shape == (2,) for value in info.values())
        obs, _, _, _, info = env.step(rng.uniform(-1, 1, 2).astype(np.float32))
    assert env.render().shape == (256, 256, 3)  # type: ignore[union-attr]


def test_walls_stop_the_mass_and_forces_are_clipped() -> None:
    env = ReachEnv()
    env.reset(seed=0)
    fast = ReachEnv()
    fast.reset(seed=0)
    for _ in range(60):
        info = env.step(np.array([1.0, -1.0], np.float32))[4]
        assert (fast.step(np.array([9.0, -9.0], np.float32))[4]["agent"] == info["agent"]).all()
    assert np.allclose(info["agent"], [1.0, -1.0], atol=0.05)


def test_the_same_seed_gives_the_same_episode() -> None:
    def frames(seed: int) -> np.ndarray:
        env = ReachEnv()
        push = np.zeros(2, np.float32)
        return np.stack([env.reset(seed=seed)[0]] + [env.step(push)[0] for _ in range(50)])

    assert (frames(1) == frames(1)).all()
    assert (frames(1) != frames(2)).any()
