"""Collecting: whole episodes, the same for the same seed, whatever the environments do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from wmtk.collecting import (
    CallablePolicy,
    CollectReport,
    RandomPolicy,
    collect_episodes,
    dataset_for,
    load_policy,
    schema_of,
)
from wmtk.datasets import Dataset
from wmtk.envs import make_env, resolve
from wmtk.errors import DatasetError, EnvironmentFailedError, SchemaMismatchError, UsageError
from wmtk.spaces import ArraySpec


def ids(path: Path) -> list[str]:
    return [episode.id for episode in Dataset.open(path)]


def play(
    path: Path, task: str = "wmtk/Catch-v0", *, append: bool = False, **options
) -> CollectReport:
    settings = options.pop("settings", {})
    seed = options.pop("seed", 0)
    resolved = resolve(task, **settings)
    with dataset_for(
        resolved, path, append=append, store_info=options.pop("store_info", ())
    ) as dataset:
        name = options.pop("policy", "random")
        policy = load_policy(name, dataset.schema.action, [seed, dataset.next_episode])
        return collect_episodes(resolved, dataset, policy, seed=seed, **options)


def test_steps_are_reached_in_whole_episodes(tmp_path) -> None:
    report = play(tmp_path / "d", steps=400, envs=3)
    dataset = Dataset.open(tmp_path / "d")
    assert report.steps == dataset.num_steps >= 400
    assert (dataset.episodes.end == 1).all()  # Catch ends by termination
    assert report.episodes == len(dataset)
    assert report.mean_return == pytest.approx(dataset.episodes.total_reward.mean())


def test_a_number_of_episodes_is_exact(tmp_path) -> None:
    assert play(tmp_path / "d", episodes=7, envs=3).episodes == 7
    assert play(tmp_path / "e", episodes=2, envs=4).episodes == 2


@pytest.mark.slow
def test_the_same_seed_gives_the_same_dataset_however_it_is_spread(tmp_path) -> None:
    play(tmp_path / "a", steps=600, envs=4, workers=0)
    play(tmp_path / "b", steps=600, envs=4, workers=2)
    play(tmp_path / "c", steps=600, envs=4, workers=0, seed=1)
    assert ids(tmp_path / "a") == ids(tmp_path / "b")
    assert set(ids(tmp_path / "a")).isdisjoint(ids(tmp_path / "c"))


def test_appending_goes_on_instead_of_repeating(tmp_path) -> None:
    play(tmp_path / "d", episodes=3)
    play(tmp_path / "d", episodes=3, append=True)
    assert len(set(ids(tmp_path / "d"))) == 6
    with pytest.raises(DatasetError, match="append=True"):
        play(tmp_path / "d", episodes=3)
    with pytest.raises(SchemaMismatchError, match="action"):
        play(tmp_path / "d", "wmtk/Reach-v0", episodes=1, append=True)


def test_an_episode_can_be_played_again_from_its_record(tmp_path) -> None:
    play(tmp_path / "d", episodes=1)
    episode = Dataset.open(tmp_path / "d")[0]
    assert episode.provenance.policy == "random"
    assert episode.provenance.env_id == "wmtk/Catch-v0"
    assert "gymnasium" in episode.provenance.env_versions
    assert episode.provenance.code_version
    env = make_env(episode.provenance.env_id)
    obs, _ = env.reset(seed=episode.seed)
    np.testing.assert_array_equal(obs, episode.obs["image"][0])
    for row in range(1, episode.length + 1):
        obs, reward, terminated, _, _ = env.step(int(episode.action[row]))
        np.testing.assert_array_equal(obs, episode.obs["image"][row])
        assert reward == episode.reward[row]
    assert terminated


def test_info_is_stored_on_request(tmp_path) -> None:
    play(tmp_path / "d", episodes=1, store_info=["paddle"])
    episode = Dataset.open(tmp_path / "d")[0]
    assert len(episode.info["paddle"]) == episode.length + 1
    with pytest.raises(UsageError, match=r"Keys: .*paddle"):
        play(tmp_path / "e", episodes=1, store_info=["nothing"])


FAULTS = {
    "raise": "RuntimeError: the simulator blew up",
    "nan reward": "reward at step 3 is nan",
    "nan obs": "obs/state is not a finite number at step 3",
    "shape": r"obs/state at step 3 has shape \(3,\)",
    "dtype": "obs/state at step 3 has shape .* float64",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_episode_that_went_wrong_is_dropped_and_the_run_goes_on(tmp_path, module, fault) -> None:
    messages: list[str] = []
    settings = {"kwargs": {"fault": fault, "when": "1,4", "log": str(tmp_path / "log")}}
    report = play(
        tmp_path / "d",
        f"{module}:Misbehaving-v0",
        settings=settings,
        episodes=6,
        envs=2,
        workers=0,
        on_message=messages.append,
    )
    assert (report.episodes, report.dropped) == (6, 2)
    assert all(np.isfinite(episode.obs["state"]).all() for episode in Dataset.open(tmp_path / "d"))
    assert len(messages) == 2
    assert re.search(FAULTS[fault], messages[0])


def test_an_environment_that_breaks_its_own_space_is_told_of_once(tmp_path, module) -> None:
    messages: list[str] = []
    settings = {"kwargs": {"fault": "bounds", "when": "1,3,4", "log": str(tmp_path / "log")}}
    report = play(
        tmp_path / "d",
        f"{module}:Misbehaving-v0",
        settings=settings,
        episodes=4,
        workers=0,
        on_message=messages.append,
    )
    assert (report.episodes, report.dropped) == (4, 3)
    [message] = messages
    assert re.search(r"obs/state at step 3, element 1, is [12]\.\d+, beyond its declared", message)
    assert "violates its observation space" in message


def test_rounding_does_not_break_a_space(tmp_path, module) -> None:
    settings = {"kwargs": {"fault": "rounding", "when": "always", "log": str(tmp_path / "log")}}
    task = f"{module}:Misbehaving-v0"
    report = play(tmp_path / "d", task, settings=settings, episodes=2, workers=0)
    assert (report.episodes, report.dropped) == (2, 0)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["hang", "die", "raise"])
def test_a_worker_that_hangs_or_dies_is_replaced(tmp_path, module, fault) -> None:
    messages: list[str] = []
    settings = {"kwargs": {"fault": fault, "when": "2", "log": str(tmp_path / "log")}}
    report = play(
        tmp_path / "d",
        f"{module}:Misbehaving-v0",
        settings=settings,
        episodes=8,
        envs=2,
        workers=2,
        timeout=4,
        on_message=messages.append,
    )
    assert (report.episodes, report.dropped) == (8, 1)
    expected = {"hang": "no step for 4 s", "die": "exit code 7", "raise": "blew up"}[fault]
    assert expected in messages[0]


def test_an_environment_that_keeps_failing_stops_the_run(tmp_path, module) -> None:
    settings = {"kwargs": {"fault": "raise", "when": "always"}}
    with pytest.raises(EnvironmentFailedError, match=r"5 times .* blew up"):
        play(tmp_path / "d", f"{module}:Misbehaving-v0", settings=settings, episodes=3, workers=0)


def test_a_function_can_be_the_policy(tmp_path, module) -> None:
    settings = {"kwargs": {"log": str(tmp_path / "log"), "when": ""}}
    play(
        tmp_path / "d",
        f"{module}:Misbehaving-v0",
        settings=settings,
        policy=f"{module}:press_one",
        episodes=3,
        envs=2,
        workers=0,
    )
    for episode in Dataset.open(tmp_path / "d"):
        assert episode.action.tolist() == [0, 1, 1, 1, 1, 1]
        assert episode.provenance.policy == f"{module}:press_one"
    with pytest.raises(UsageError, match="cannot be imported"):
        load_policy(f"{module}:nothing", ArraySpec("discrete", (), "int64", 0, 1), [0])


@pytest.mark.parametrize(
    "spec",
    [
        ArraySpec("discrete", (), "int64", 2, 5),
        ArraySpec("multi_discrete", (2,), "int64", (0, 1), (2, 4)),
        ArraySpec("multi_binary", (3,), "int8", 0, 1),
        ArraySpec("box", (2,), "float32", (-1.0, None), (1.0, None)),
    ],
    ids=str,
)
def test_random_actions_cover_the_space(spec) -> None:
    policy = RandomPolicy(spec, [0])
    actions = np.array([policy.act([0])[0] for _ in range(300)])
    assert actions.dtype == spec.dtype
    assert (actions >= spec.bound("low")).all()
    assert (actions <= spec.bound("high")).all()
    if spec.kind != "box":
        assert (actions.min(0) == spec.bound("low")).all()
        assert (actions.max(0) == spec.bound("high")).all()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_keeps_what_is_whole_and_goes_on(tmp_path, number) -> None:
    command = [sys.executable, "-m", "wmtk", "collect", "wmtk/Catch-v0", "--seed", "0"]
    command += ["--out", str(tmp_path / "d"), "--steps"]
    process = subprocess.Popen([*command, "10000000"], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("d/log/0*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "--append" in err
    before = Dataset.open(tmp_path / "d").num_episodes
    assert before > 0
    again = subprocess.run([*command, "200", "--append"], check=True, env=os.environ)
    assert again.returncode == 0
    assert Dataset.open(tmp_path / "d").num_episodes > before


@pytest.mark.parametrize(
    ("task", "returned"),
    [
        ("CartPole-v1", 2),
        ("CartPole-v1", -1),
        ("CartPole-v1", 0.7),
        ("CartPole-v1", float("nan")),
        ("Pendulum-v1", [float("nan")]),
        ("Pendulum-v1", [float("inf")]),
    ],
)
def test_a_function_that_returns_no_action_is_named(tmp_path, task, returned) -> None:
    resolved = resolve(task)
    with dataset_for(resolved, tmp_path / "d") as dataset:
        policy = CallablePolicy(lambda obs: returned, dataset.schema.action, "mine")
        with pytest.raises(UsageError, match=r"The policy mine returned .* is not an action"):
            collect_episodes(resolved, dataset, policy, seed=0, episodes=1, workers=0)
    assert not (tmp_path / "d").exists()


def test_numbers_that_are_actions_are_taken() -> None:
    for task, returned in (("CartPole-v1", 1.0), ("CartPole-v1", True), ("Pendulum-v1", [1])):
        action = schema_of(resolve(task)).action
        obs = [{"state": np.zeros(3)}]
        assert CallablePolicy(lambda _, value=returned: value, action).act([0], obs) == [1]


def test_a_policy_that_leaves_the_action_space_is_at_fault(tmp_path) -> None:
    class Wild(RandomPolicy):
        def act(self, env_indices, obs=()):
            return [action + 10 for action in super().act(env_indices, obs)]

    task = resolve("Pendulum-v1", time_limit=5)
    schema = schema_of(task)
    with (
        Dataset.create(tmp_path / "d", schema) as dataset,
        pytest.raises(EnvironmentFailedError, match="The policy chose actions out of bounds"),
    ):
        collect_episodes(task, dataset, Wild(schema.action, [0]), seed=0, episodes=3, workers=0)
