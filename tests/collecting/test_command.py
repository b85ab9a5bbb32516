"""The command around collecting: policies from the current folder, Ctrl-C, what it leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from wmtk.collecting import RandomPolicy, collect_episodes, dataset_for, find_policy
from wmtk.collecting.episode_recorder import _checked
from wmtk.datasets import Dataset
from wmtk.envs import resolve
from wmtk.errors import UsageError
from wmtk.spaces import ArraySpec

POLICIES = """
def right(obs):
    return 2

def broken(obs):
    return obs["nothing"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module that nothing else can find."""
    (tmp_path / "folder_policies.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "folder_policies", raising=False)
    return tmp_path


def test_a_policy_is_found_in_the_current_folder(folder, run_wmtk) -> None:
    options = ("--policy", "folder_policies:right", "--episodes", 1, "--seed", 0)
    done = run_wmtk("collect", "wmtk/Catch-v0", "--out", "d.zarr", *options)
    assert done.exit_code == 0, done.stderr
    assert set(Dataset.open("d.zarr")[0].action[1:].tolist()) == {2}


@pytest.mark.parametrize(
    "name", ["folder_policies:nothing", "no_such_module:right", "folder_policies"]
)
def test_a_wrong_policy_leaves_no_dataset_behind(folder, run_wmtk, name) -> None:
    done = run_wmtk(
        "collect", "wmtk/Catch-v0", "--out", "d.zarr", "--policy", name, "--episodes", 1
    )
    assert done.exit_code == 2
    assert name in done.stderr
    assert not Path("d.zarr").exists()


def test_a_policy_that_raises_is_told_from_a_fault_of_ours(folder, run_wmtk) -> None:
    options = ("--policy", "folder_policies:broken", "--episodes", 1)
    done = run_wmtk("collect", "wmtk/Catch-v0", "--out", "d.zarr", *options)
    assert done.exit_code == 2
    assert "The policy folder_policies:broken failed: IndexError" in done.stderr
    assert "not foreseen" not in done.stderr


def test_random_is_no_function() -> None:
    assert find_policy("random") is None
    with pytest.raises(UsageError, match="Unknown policy"):
        find_policy("greedy")


def test_spaces_between_info_keys_do_not_matter(tmp_path, run_wmtk) -> None:
    out = tmp_path / "d"
    options = ("--episodes", 1, "--store-info", "ball, paddle")
    assert run_wmtk("collect", "wmtk/Catch-v0", "--out", out, *options).exit_code == 0
    assert set(Dataset.open(out)[0].info) == {"ball", "paddle"}


def test_observations_of_another_byte_order_are_turned_round() -> None:
    spec = ArraySpec("box", (2,), "float32")
    kept = _checked("obs/state", np.array([1, 2], ">f4"), spec, 0)
    assert kept.dtype == np.float32
    assert kept.tolist() == [1, 2]


def test_an_empty_folder_can_become_the_dataset(tmp_path, run_wmtk) -> None:
    (tmp_path / "d").mkdir()
    options = ("--out", tmp_path / "d", "--episodes", 1)
    assert run_wmtk("collect", "wmtk/Catch-v0", *options).exit_code == 0
    again = run_wmtk("collect", "wmtk/Catch-v0", *options)
    assert again.exit_code == 1
    assert "--append" in again.stderr


def test_a_capacity_is_kept_to_and_explained(tmp_path, run_wmtk) -> None:
    options = ["--steps", 3000, "--capacity", 1000, "--seed", 0, "--out", tmp_path / "d"]
    done = run_wmtk("collect", "wmtk/Catch-v0", *options)
    kept = Dataset.open(tmp_path / "d").num_steps
    assert 1000 - 79 <= kept <= 1000
    said = " ".join(done.stdout.split())
    assert f"kept {kept} steps, {kept // 79} episodes: the capacity is 1,000" in said
    options = ["--episodes", 2, "--capacity", 50, "--seed", 0, "--out", tmp_path / "e"]
    done = run_wmtk("collect", "wmtk/Catch-v0", *options)
    assert "79 steps, 1 episode: the newest episode stays whole" in " ".join(done.stdout.split())


def test_random_play_works_without_torch(tmp_path) -> None:
    hide = "import sys; sys.modules['torch'] = None; from wmtk.cli.main import main; main()"
    for words in (
        ["collect", "wmtk/Catch-v0", "--out", str(tmp_path / "d"), "--episodes", "2"],
        ["eval", "--policy", "random", "--task", "wmtk/Catch-v0", "--episodes", "2"],
    ):
        command = [sys.executable, "-c", hide, *words, "--seed", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def interrupt(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C, and again if Python dropped it: KeyboardInterrupt is lost in a finalizer."""
    for _ in range(4):
        os.killpg(process.pid, signal.SIGINT)
        try:
            return process.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.communicate()[1]


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.5])
def test_ctrl_c_while_workers_start_is_quiet(tmp_path, delay) -> None:
    """A terminal sends the signal to the workers as well."""
    command = [sys.executable, "-m", "wmtk", "collect", "CartPole-v1", "--workers", "2"]
    command += ["--out", str(tmp_path / "d"), "--steps", "10000000", "--seed", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "d").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(delay)
    err = interrupt(process)
    assert process.returncode == 130
    assert "Traceback" not in err
    # Going on works, whatever there is of the dataset.
    task = resolve("CartPole-v1")
    with dataset_for(task, tmp_path / "d", append=True) as dataset:
        assert dataset.num_steps >= 0


def test_actions_do_not_depend_on_how_many_are_asked_for_at_a_time() -> None:
    spec = ArraySpec("box", (2,), "float32", (-1.0, None), (1.0, None))
    one, other = RandomPolicy(spec, [0]), RandomPolicy(spec, [0])
    together = np.array([one.act([3, 7]) for _ in range(600)])
    alone = np.array([other.act([7])[0] for _ in range(600)])
    np.testing.assert_array_equal(together[:, 1], alone)
    assert len(np.unique(alone[:, 0])) > 590  # no block is given twice


SPEAKING = """
import gymnasium as gym
import numpy as np

class Speaking(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    fail = True

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if Speaking.fail:
            Speaking.fail = False
            raise ValueError("[/bold] is " + 200 * "long ")
        return np.zeros(2, np.float32), 0.0, True, False, {}
"""


def test_what_an_environment_says_is_shown_as_it_is(folder, run_wmtk) -> None:
    (folder / "speaking_envs.py").write_text(SPEAKING)
    options = ("--out", "d.zarr", "--episodes", 1, "--workers", 0)
    done = run_wmtk("collect", "speaking_envs:Speaking", *options)
    assert done.exit_code == 0, done.stderr
    assert f"episode dropped: ValueError: [/bold] is {200 * 'long '}" in done.stderr


@pytest.mark.slow
def test_a_process_that_dies_counts_once_however_many_environments_it_had(tmp_path, module) -> None:
    messages: list[str] = []
    settings = {"fault": "die", "when": "6", "log": str(tmp_path / "log")}
    task = resolve(f"{module}:Misbehaving-v0", kwargs=settings)
    with dataset_for(task, tmp_path / "d") as dataset:
        policy = RandomPolicy(dataset.schema.action, [0])
        report = collect_episodes(
            task, dataset, policy, seed=0, episodes=12, envs=6, workers=1,
            on_message=messages.append,
        )  # fmt: skip
    assert report.episodes == 12
    assert report.dropped >= 5  # more than what ends a run
    assert "exit code 7" in messages[0]


@pytest.mark.slow
def test_a_short_timeout_does_not_kill_processes_that_start(tmp_path, monkeypatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(4)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    task = resolve("CartPole-v1")
    with dataset_for(task, tmp_path / "d") as dataset:
        policy = RandomPolicy(dataset.schema.action, [0])
        report = collect_episodes(task, dataset, policy, seed=0, episodes=2, workers=1, timeout=3)
    assert (report.episodes, report.dropped) == (2, 0)
