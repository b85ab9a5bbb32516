from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from wmtk.envs import catch
from wmtk.envs.catch import CatchEnv
from wmtk.envs.catch_solver import Solution, solve


@pytest.fixture(scope="module")
def optimum() -> Solution:
    return solve()


def returns(env: CatchEnv, policy: object, episodes: int) -> np.ndarray:
    totals = []
    env.reset(seed=0)
    for _ in range(episodes):
        env.reset()
        total, ended = 0.0, False
        while not ended:
            _, reward, ended, _, _ = env.step(policy(env))  # type: ignore[operator]
            total += reward
        totals.append(total)
    return np.array(totals)


def test_gymnasium_accepts_it() -> None:
    check_env(gym.make("wmtk/Catch-v0", render_mode="rgb_array").unwrapped)


def test_the_documented_returns_are_the_exact_ones(optimum: Solution) -> None:
    assert solve(random=True).expected_return == pytest.approx(catch.RANDOM_RETURN, abs=5e-4)
    assert optimum.expected_return == pytest.approx(catch.OPTIMAL_RETURN, abs=5e-4)


def test_the_environment_gives_these_returns(optimum: Solution) -> None:
    rng = np.random.default_rng(0)
    random = returns(CatchEnv(), lambda env: rng.integers(3), 300)

    def best(env: CatchEnv) -> int:
        landed = env._time == catch.FALL
        ball = catch.BALLS - env._left - landed
        return optimum.action(ball, env._time, env._x, env._drift, env._paddle)

    optimal = returns(CatchEnv(), best, 300)
    for sample, expected in ((random, catch.RANDOM_RETURN), (optimal, catch.OPTIMAL_RETURN)):
        assert abs(sample.mean() - expected) < 4 * sample.std() / len(sample) ** 0.5 + 1e-9


def test_following_the_ball_is_not_enough() -> None:
    def follow(env: CatchEnv) -> int:
        gap = (env._x + catch.BALL / 2) - (env._paddle + catch.PADDLE_WIDTH / 2)
        return 1 + (gap > 1) - (gap < -1)

    followed = returns(CatchEnv(), follow, 300).mean()
    assert 3.0 < followed < catch.OPTIMAL_RETURN - 0.5


def test_an_episode_ends_by_termination_after_the_last_ball() -> None:
    env = CatchEnv()
    env.reset(seed=0)
    steps = [env.step(1) for _ in range(catch.EPISODE_STEPS)]
    assert [step[2] for step in steps] == [False] * (catch.EPISODE_STEPS - 1) + [True]
    assert not any(step[3] for step in steps)
    rewards = [step[1] for step in steps]
    assert [t for t, reward in enumerate(rewards) if reward] == [14, 30, 46, 62, 78]
    assert {abs(reward) for reward in rewards} == {0.0, 1.0}


def test_the_picture_shows_the_factors() -> None:
    env = CatchEnv(render_mode="rgb_array")
    obs, info = env.reset(seed=4)
    rng = np.random.default_rng(0)
    for _ in range(60):
        ys, xs = np.nonzero(obs[..., 0] > 200)
        center = np.array([xs.mean() + 0.5, ys.mean() + 0.5]) / 64
        assert np.allclose(info["ball"], center, atol=1e-6)
        paddle = np.nonzero(obs[-1, :, 0] == catch.BRIGHTNESS_PADDLE)[0]
        assert info["paddle"] == pytest.approx((paddle.mean() + 0.5) / 64)
        assert len(paddle) == 16
        assert all(np.asarray(value).dtype == np.float32 for value in info.values())
        previous, (obs, _, _, _, info) = info, env.step(rng.integers(3))
        if info["ball"][1] > previous["ball"][1]:  # the drift is the difference of two pictures
            assert info["drift"] == info["ball"][0] - previous["ball"][0]
    assert env.render().shape == (256, 256, 3)  # type: ignore[union-attr]


def test_marks_count_the_balls_that_are_left() -> None:
    env = CatchEnv()
    obs, info = env.reset(seed=0)
    counts = []
    for _ in range(catch.EPISODE_STEPS):
        obs, _, ended, _, info = env.step(1)
        row = (obs[0, :, 0] == catch.BRIGHTNESS_MARK).astype(int)
        marks = int((np.diff(row, prepend=0) == 1).sum())
        assert marks == info["balls_left"]
        assert ended == (marks == 0)
        counts.append(marks)
    assert sorted(set(counts)) == [0, 1, 2, 3, 4, 5]


def test_the_same_seed_gives_the_same_episode() -> None:
    def frames(seed: int) -> np.ndarray:
        env = CatchEnv()
        return np.stack([env.reset(seed=seed)[0]] + [env.step(2)[0] for _ in range(50)])

    assert (frames(1) == frames(1)).all()
    assert (frames(1) != frames(2)).any()
