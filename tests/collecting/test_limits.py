"""Nothing is played for ever: time limits, tasks that have none, and what `steps` bounds."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from wmtk.collecting import (
    RandomPolicy,
    collect_episodes,
    dataset_for,
    evaluate_policy,
    load_policy,
    max_steps,
)
from wmtk.datasets import Dataset
from wmtk.envs import resolve
from wmtk.spaces import ArraySpec


class Endless(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 1.0, False, False, {}


gym.register("Endless-v0", entry_point=Endless)
gym.register("Limited-v0", entry_point=Endless, max_episode_steps=30)
gym.register("Unlimited-v0", entry_point=Endless, max_episode_steps=10**9)


def left(obs):
    return 0


@pytest.mark.parametrize(
    ("task", "options", "limit"),
    [
        ("Endless-v0", {}, None),
        ("Endless-v0", {"time_limit": 12}, 12),
        ("Limited-v0", {}, 30),
        ("Unlimited-v0", {}, None),  # a limit that is never reached is none
        ("Unlimited-v0", {"time_limit": 200_000}, 200_000),  # unless it is asked for
        ("Limited-v0", {"repeat": 4}, 8),
        ("wmtk/Catch-v0", {}, 80),
        ("wmtk/Reach-v0", {}, 100),
        (f"{__name__}:Endless", {}, None),
        (f"{__name__}:Endless", {"time_limit": 9}, 9),
        ("atari_pong", {}, 27_000),
    ],
)
def test_the_time_limit_of_a_task_is_known(task, options, limit) -> None:
    resolved = resolve(task, **options)
    assert resolved.time_limit == limit
    if limit and limit < 100:
        env = resolved.make()
        env.reset(seed=0)
        steps = 1
        while not any(env.step(env.action_space.sample())[2:4]):
            steps += 1
        assert limit - 1 <= steps <= limit
        env.close()


@pytest.mark.parametrize("sees", [False, True])
def test_steps_bound_what_an_endless_task_plays(tmp_path, sees, monkeypatch) -> None:
    task = resolve("Endless-v0")
    monkeypatch.setattr("wmtk.collecting.env_setup.MAX_EPISODE_STEPS", 70)
    with dataset_for(task, tmp_path / "d") as dataset:
        name = f"{__name__}:left" if sees else "random"
        policy = load_policy(name, dataset.schema.action, [0])
        told = []
        report = collect_episodes(
            task, dataset, policy, seed=0, steps=201, envs=2, on_progress=told.append, workers=0
        )
    dataset = Dataset.open(tmp_path / "d")
    assert (
        report.steps == dataset.num_steps == told[-1].steps_taken == max_steps(task, 201, 2) == 202
    )
    assert sorted(dataset.episodes.length.tolist()) == [31, 31, 70, 70]
    assert (dataset.episodes.end == 2).all()  # truncated


def test_episodes_of_an_endless_task_have_an_end(tmp_path, monkeypatch) -> None:
    task = resolve("Endless-v0")
    monkeypatch.setattr("wmtk.collecting.env_setup.MAX_EPISODE_STEPS", 50)
    report = evaluate_policy(
        task,
        RandomPolicy(ArraySpec("discrete", (), "int64", 0, 1), [0]),
        episodes=3,
        seed=0,
        workers=0,
    )
    assert report.lengths == (50, 50, 50)


def test_a_time_limit_bounds_what_is_played_beyond_the_steps(tmp_path) -> None:
    task = resolve("Limited-v0")
    with dataset_for(task, tmp_path / "d") as dataset:
        policy = RandomPolicy(dataset.schema.action, [0])
        report = collect_episodes(task, dataset, policy, seed=0, steps=100, envs=4, workers=0)
    assert report.steps == 120 <= max_steps(task, 100, 4) == 4 * (25 + 29)
    assert (Dataset.open(tmp_path / "d").episodes.length == 30).all()


def test_the_commands_say_it_before_they_play(tmp_path, run_wmtk) -> None:
    options = ["--workers", 0, "--envs", 2, "--steps", 50]
    done = run_wmtk("collect", "Endless-v0", *options, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.stderr
    assert "Endless-v0 has no time limit" in done.stderr
    assert "--env-set time_limit=1000" in done.stderr
    done = run_wmtk("collect", "Limited-v0", *options, "--out", tmp_path / "b")
    assert "up to 58 steps beyond 50" in done.stderr
    limited = ["--env-set", "time_limit=1000", "--out", tmp_path / "c"]
    assert "no time limit" not in run_wmtk("collect", "Endless-v0", *options, *limited).stderr
    words = ["--task", "Endless-v0", "--env-set", "time_limit=5", "--episodes", 1, "--workers", 0]
    assert run_wmtk("eval", "--policy", "random", *words).exit_code == 0
