"""An online run that is killed, stopped or starved goes on: nothing is lost, nothing doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wmtk.datasets import Dataset, SequenceSampler
from wmtk.datasets.integrity.validate import validate
from wmtk.envs import resolve
from wmtk.errors import EnvironmentFailedError, StorageFullError
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.replay import open_replay, replay_steps
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import OnlineConfig
from wmtk.training.online.train import online

PATIENCE = 300  # seconds, on a machine that is busy with other things
LONGEST_END = 60  # seconds from a signal to the exit; more is a process that hangs
PACE = OnlineConfig(prefill=100, pretrain=2, train_every=8, envs=2, evaluate=300, episodes=1)
SMALL = {"behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}
SMALL |= {f"online.{name}": value for name, value in PACE.model_dump().items()}
BLINKING = '''
import os
import gymnasium as gym
import numpy as np


class Blinking(gym.Env):
    """Five steps an episode; it breaks in those whose number says so, counted in a file."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, log="", broken_from=10**9, one_in=10**9):
        self.log, self.broken_from, self.one_in = log, broken_from, one_in

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        with open(self.log, "a") as file:
            file.write("x")
        self.number, self.t = os.path.getsize(self.log), 0
        return self._obs(), {}

    def _obs(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def step(self, action):
        self.t += 1
        if self.t == 3 and (self.number >= self.broken_from or self.number % self.one_in == 0):
            raise RuntimeError("the simulator blew up")
        return self._obs(), 1.0, self.t == 5, False, {}


gym.registry.pop("Blinking-v0", None)  # that of another test
gym.register("Blinking-v0", entry_point=Blinking)
'''


@pytest.fixture
def config(config):
    return config.override(SMALL)


@pytest.fixture
def blinking(tmp_path, monkeypatch):
    """A task whose environment fails now and then."""
    (tmp_path / "blinking_envs.py").write_text(BLINKING)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "blinking_envs", raising=False)

    def make(**options):
        kwargs = {"log": str(tmp_path / "log"), **options}
        return resolve("blinking_envs:Blinking-v0", kwargs=kwargs)

    return make


def test_an_environment_that_fails_now_and_then(blinking, config, tmp_path) -> None:
    messages: list[str] = []
    run = online(
        blinking(one_in=7),
        tmp_path / "run",
        config,
        steps=200,
        workers=0,
        on_message=messages.append,
    )
    assert len(messages) > 3
    assert all("the simulator blew up" in message for message in messages)
    assert run.step == config.online.updates_at(200)
    lengths = open_replay(run.path).episodes.length
    assert (lengths == 5).all()
    assert replay_steps(run.path) == lengths.sum() >= 200


def test_an_environment_that_fails_for_good(blinking, config, tmp_path) -> None:
    out = tmp_path / "run"
    with pytest.raises(EnvironmentFailedError, match="blew up") as caught:
        online(blinking(broken_from=30), out, config, steps=400, workers=0)
    assert "resume=True" in caught.value.hint
    stopped = Run(out).step
    assert stopped > 0  # saved, though no checkpoint was due
    assert replay_steps(out) == open_replay(out).num_steps < 400
    (tmp_path / "log").write_text("")  # somebody has mended it for the next 29 episodes
    with pytest.raises(EnvironmentFailedError):
        online(blinking(broken_from=30), out, config, steps=400, workers=0, resume=True)
    assert Run(out).step > stopped


def test_an_environment_that_never_works_leaves_no_run(blinking, config, tmp_path) -> None:
    with pytest.raises(EnvironmentFailedError):
        online(blinking(broken_from=0), tmp_path / "run", config, steps=200, workers=0)
    assert not (tmp_path / "run").exists()


# --- a disk that fills up ---


@pytest.mark.slow
# TensorBoard writes in a thread, which dies of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_stops_the_run_and_it_goes_on_with_room(config, tmp_path) -> None:
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("only root can mount file systems")
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=24m", "none", str(disk)]
    done = subprocess.run(["mount", *options], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    try:
        task, out = resolve("wmtk/Catch-v0"), disk / "run"
        first = online(task, out, config, steps=200)
        filler = disk / "filler"
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        filler.write_bytes(bytes(max(free - 80_000, 0)))
        with pytest.raises(StorageFullError, match="No space left"):
            online(task, out, config, steps=2000, resume=True)
        assert Run(out).step >= first.step
        assert not validate(out / "replay.zarr").errors
        filler.unlink()
        run = online(task, out, config, steps=400, resume=True)
        assert run.step == config.online.updates_at(400)
        assert replay_steps(out) == open_replay(out).num_steps >= 400
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# --- in a process of its own ---


@pytest.fixture
def command(small, tmp_path, request):
    """Start `wmtk online` in a process."""

    def start(*options: str, steps: int = 600) -> subprocess.Popen[str]:
        words = ["online", "wmtk/Catch-v0", "--out", str(tmp_path / "run"), "--device", "cpu"]
        words += [*small, "--set", "logging.checkpoint_every=7", "--steps", str(steps), "--json"]
        for name, value in SMALL.items():
            words += ["--set", f"{name}={value}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "wmtk", *words, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        request.addfinalizer(process.kill)
        return process

    return start


def wait_for(done, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def begun(out: Path) -> bool:
    return (out / "checkpoints" / "latest").exists()


@pytest.mark.slow
def test_a_signal_ends_it_committed(command, tmp_path) -> None:
    out = tmp_path / "run"
    process = command(steps=10**6)
    wait_for(lambda: begun(out), process)
    process.send_signal(signal.SIGINT)
    told, said = process.communicate(timeout=LONGEST_END)
    assert process.returncode == 130, said
    assert "--resume" in said.splitlines()[-1]
    assert "Traceback" not in said
    result = json.loads(told)
    assert not result["finished"]
    assert result["updates"] == Run(out).step > 0
    steps = replay_steps(out)
    assert result["steps"] == steps == open_replay(out).num_steps
    # What is left of the episodes under way has to be played again.
    assert Run(out).step <= PACE.updates_at(steps + PACE.envs * 79)
    resumed = command("--resume", steps=steps + 100)
    _, said = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, said
    assert Run(out).step == PACE.updates_at(steps + 100)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["plain", "async"])
def test_kills_at_any_time_lose_and_double_nothing(command, tmp_path, mode) -> None:
    out, dice = tmp_path / "run", random.Random(0)
    kept: list[bytes] = []
    fired = 0
    for _ in range(4):
        process = command("--resume", *mode)
        # Not before it has begun: how long that takes says nothing.
        wait_for(lambda: (out / "replay.json").exists(), process)
        goal = replay_steps(out) + dice.randrange(0, 150)
        until = time.monotonic() + PATIENCE
        while process.poll() is None and replay_steps(out) < goal and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(dice.uniform(0, 0.2))
        fired += process.poll() is None
        process.kill()
        process.communicate()
        now = [row.tobytes() for row in open_replay(out).episodes.id]
        assert now[: len(kept)] == kept  # every episode that was committed is still there
        kept = now
        assert not validate(out / "replay.zarr").errors
    assert fired >= 2
    resumed = command("--resume", *mode)
    told, said = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, said
    result = json.loads(told)
    assert result["finished"]
    assert result["updates"] == PACE.updates_at(600)
    dataset = open_replay(out)
    assert result["steps"] == dataset.num_steps == 79 * len(dataset)
    assert 600 <= dataset.num_steps < 600 + PACE.envs * 79
    ids = [row.tobytes() for row in dataset.episodes.id]
    assert len(set(ids)) == len(ids)
    steps = [r["step"] for r in read_metrics(out) if "train/kl" in r]
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_another_process_reads_tags_and_validates(command, tmp_path) -> None:
    out = tmp_path / "run"
    process = command(steps=10**6)
    wait_for(lambda: begun(out), process)
    replay = out / "replay.zarr"
    dataset = Dataset.open(replay, "a")
    seen = len(dataset)
    wait_for(lambda: dataset.refresh() and len(dataset) > seen, process)
    assert not validate(replay).errors
    batch = SequenceSampler(dataset, batch_size=3, length=5).sample()
    assert batch.mask.all()
    dataset.tag("now")
    listed = subprocess.run(
        [sys.executable, "-m", "wmtk", "runs", str(tmp_path), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = json.loads(listed.stdout)
    assert (line["kind"], line["state"]) == ("online", "running")
    tagged = len(Dataset.open(replay, tag="now"))
    wait_for(lambda: dataset.refresh() and len(dataset) > tagged, process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=LONGEST_END)
    assert process.returncode == 130, said
    assert len(Dataset.open(replay, tag="now")) == tagged
    assert not validate(replay).errors
