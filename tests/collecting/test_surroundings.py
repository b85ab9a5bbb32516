"""What environments do to their surroundings: the current folder, stdout, the disk below them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wmtk.datasets import Dataset
from wmtk.errors import UsageError, WmtkError
from wmtk.training.presets import training_config

MODULE = '''
import atexit, ctypes, os, sys, tempfile, threading
import gymnasium as gym
import numpy as np

libc = ctypes.CDLL(None)


def noise(where):
    print("NOISE", where, "\\x1b]0;title\\x07")
    for stream in sys.__stdout__, sys.__stderr__:
        print("NOISE past the streams of today", "\\x1b]0;title\\x07", file=stream)
    os.write(1, b"NOISE from a descriptor\\n")
    libc.printf(b"NOISE from C\\n")


noise("import")
if "pytest" not in sys.modules:
    atexit.register(noise, "exit")


class Noisy(gym.Env):
    """Prints in every way, and changes the current folder."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fails=False):
        self.fails = fails
        noise("make")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        noise("reset")
        os.chdir(tempfile.gettempdir())
        threading.Thread(target=noise, args=("thread",)).start()
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        noise("step")
        os.chdir("/")
        self.t += 1
        if self.fails:
            raise RuntimeError("the simulator blew up")
        return np.zeros(2, np.float32), 1.0, self.t == 5, False, {}

    def close(self):
        noise("close")


gym.register("Noisy-v0", entry_point=Noisy, max_episode_steps=10)


def press_one(obs):
    print("NOISE policy")
    return 1
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "noisy_envs.py").write_text(MODULE)
    return tmp_path


def wmtk(folder: Path, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wmtk", *map(str, args)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_what_an_environment_prints_and_where_it_goes_does_no_harm(folder, workers) -> None:
    """Results alone are on stdout, and relative paths mean what they meant at the start."""
    options = ["--workers", workers, "--seed", 0, "--json"]
    task = "noisy_envs:Noisy-v0"
    done = wmtk(folder, "collect", task, "--out", "d/n.zarr", "--episodes", 6, *options)
    assert done.returncode == 0, done.stderr
    assert r"NOISE step \x1b]0;title\x07" in done.stderr
    assert "\x1b" not in done.stderr
    report = json.loads(done.stdout)
    assert (report["episodes"], report["path"]) == (6, "d/n.zarr")
    assert "NOISE" in done.stderr
    assert "New folder" in done.stderr
    assert len(Dataset.open(folder / "d/n.zarr")) == 6
    policy = ["--policy", "noisy_envs:press_one", "--task", task, "--episodes", 2]
    done = wmtk(folder, "eval", *policy, *options)
    assert json.loads(done.stdout)["returns"] == [5.0, 5.0]
    if workers:
        return
    sizes = ["online.prefill=5", "online.pretrain=1", "online.train_every=8", "online.episodes=1"]
    sizes += ["model.units=8", "model.rssm.deter=8", "model.rssm.hidden=8", "data.length=4"]
    sets = [word for size in sizes for word in ("--set", size)]
    done = wmtk(folder, "online", task, "--out", "runs/n", "--steps", 20, *sets, *options)
    assert json.loads(done.stdout)["finished"], done.stderr
    assert json.loads(done.stdout)["steps"] >= 20
    assert len(Dataset.open(folder / "runs/n/replay.zarr")) >= 4


def test_an_environment_that_fails_leaves_nothing_in_the_way(folder, run_wmtk, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    options = ["noisy_envs:Noisy-v0", "--out", "d.zarr", "--episodes", 1, "--workers", 0]
    failed = run_wmtk("collect", *options, "--env-set", 'kwargs={"fails": true}')
    assert failed.exit_code == 1
    assert "blew up" in failed.stderr
    assert "Nothing was stored" in failed.stderr
    assert not (folder / "d.zarr").exists()
    monkeypatch.chdir(folder)
    assert run_wmtk("collect", *options).exit_code == 0


@pytest.mark.parametrize("where", ["import", "make", "reset", "step", "close"])
def test_code_that_exits_is_a_failure(folder, run_wmtk, monkeypatch, where) -> None:
    """Not the end of the command without a word."""
    module = f"exits_at_{where}"
    text = f'''
import sys
from noisy_envs import Noisy

def at(where):
    if where == "{where}":
        sys.exit(3)

at("import")

class Exits(Noisy):
    def __init__(self):
        at("make")
        super().__init__()

    def reset(self, *, seed=None, options=None):
        at("reset")
        return super().reset(seed=seed)

    def step(self, action):
        at("step")
        return super().step(action)

    def close(self):
        at("close")
'''
    (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    task = f"{module}:Exits"
    for command in (["collect", task, "--out", folder / "d"], ["eval", "--task", task]):
        more = [] if command[0] == "collect" else ["--policy", "random"]
        monkeypatch.chdir(folder)
        done = run_wmtk(*command, *more, "--episodes", 1, "--workers", 0)
        if where == "close":  # when the work is done
            assert done.exit_code == 0, done.output
        else:
            assert done.exit_code == 1, done.output
            assert "SystemExit" in done.stderr
            assert not (folder / "d").exists()


def test_a_dataset_left_empty_by_a_kill_is_not_in_the_way(tmp_path, run_wmtk) -> None:
    options = ["wmtk/Catch-v0", "--episodes", 1, "--out", tmp_path / "d.zarr"]
    code = (
        "import os, sys; from wmtk.collecting import dataset_for; from wmtk.envs import resolve\n"
        "dataset_for(resolve('wmtk/Catch-v0'), sys.argv[1]); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "d.zarr")], check=False)
    assert len(Dataset.open(tmp_path / "d.zarr")) == 0
    with Dataset.open(tmp_path / "d.zarr", "a"):  # while a writer has it open
        assert run_wmtk("collect", *options).exit_code == 1
    assert run_wmtk("collect", *options).exit_code == 0
    kept = Dataset.open(tmp_path / "d.zarr").id
    assert "exists already" in run_wmtk("collect", *options).stderr
    assert Dataset.open(tmp_path / "d.zarr").id == kept


def test_new_folders_above_an_output_are_named(tmp_path, run_wmtk, catch) -> None:
    for command, place in (("merge", "slip/d.zarr"), ("filter", "slap/d.zarr")):
        done = run_wmtk("data", command, catch, "--out", tmp_path / place)
        assert done.exit_code == 0, done.stderr
        assert f"New folder: {(tmp_path / place).parent}" in done.stderr
    assert "New folder" not in run_wmtk("data", "merge", catch, "--out", tmp_path / "e").stderr


# --- paths that cannot be ---

LONG = "x" * 300
DEEP = "/".join(["folder"] * 800)


@pytest.mark.parametrize("place", [LONG, DEEP, "file/d", "file"])
@pytest.mark.parametrize("command", ["collect", "online", "merge", "open", "run"])
def test_an_impossible_path_is_refused_plainly(tmp_path, run_wmtk, place, command, catch) -> None:
    (tmp_path / "file").write_text("")
    out = f"{tmp_path}/{place}"
    if command in {"open", "run"}:
        from wmtk.runs.run_directory import Run

        with pytest.raises(WmtkError) as caught:
            (Dataset.open if command == "open" else Run)(Path(out))
        assert caught.value.hint or "not a path" in caught.value.message
        return
    words = {
        "collect": ["collect", "wmtk/Catch-v0", "--episodes", 1],
        "online": ["online", "wmtk/Catch-v0", "--steps", 1200],
        "merge": ["data", "merge", catch, "--yes"],
    }[command]
    done = run_wmtk(*words, "--out", out)
    assert done.exit_code in {1, 2}, done.output
    assert "not foreseen" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "Errno" not in done.stderr
    assert any(told in done.stderr for told in ("too long", "not a folder", "exists"))


@pytest.fixture
def catch(tmp_path, run_wmtk) -> Path:
    path = tmp_path / "catch.zarr"
    run_wmtk("collect", "wmtk/Catch-v0", "--episodes", 1, "--out", path)
    return path


def test_a_folder_that_cannot_be_written_is_named_with_the_reason(tmp_path, run_wmtk) -> None:
    closed = Path("/sys") if os.geteuid() == 0 else tmp_path / "closed"
    if os.geteuid() != 0:
        closed.mkdir(mode=0o500)
    for words in (["collect", "wmtk/Catch-v0", "--episodes", 1], ["online", "wmtk/Catch-v0"]):
        done = run_wmtk(*words, "--out", closed / "new" / "d")
        assert done.exit_code == 1
        assert f"{closed} is not writable" in done.stderr
        assert "permitted" in done.stderr or "denied" in done.stderr or "Read-only" in done.stderr


@pytest.mark.parametrize("fate", ["renamed", "removed"])
def test_a_run_that_is_gone_while_it_trains_is_said_to_be(tmp_path, fate) -> None:
    import shutil

    from wmtk.envs import resolve
    from wmtk.training.online.train import online

    out = tmp_path / "run"
    changes = {"online.prefill": 79, "online.envs": 1, "online.episodes": 0, "online.pretrain": 1}
    changes |= {
        "online.train_every": 16,
        "logging.log_every": 1,
        "model.units": 8,
        "data.length": 4,
    }

    def interfere(progress) -> None:
        if progress.updates == 2 and out.exists():
            if fate == "renamed":
                out.rename(tmp_path / "elsewhere")
            else:
                shutil.rmtree(out)

    config = training_config("tiny", overrides=changes)
    with pytest.raises(WmtkError, match="is gone: it was renamed, moved or removed"):
        online(resolve("wmtk/Catch-v0"), out, config, steps=400, on_progress=interfere)
    if fate == "renamed":
        assert len(Dataset.open(tmp_path / "elsewhere" / "replay.zarr")) >= 1


def test_a_relative_path_does_not_follow_the_current_folder(tmp_path, monkeypatch) -> None:
    from wmtk.datasets.storage import atomic

    monkeypatch.chdir(tmp_path)
    path = atomic.absolute_path("d")
    assert path == tmp_path / "d"
    with pytest.raises(UsageError, match="too long"):
        atomic.absolute_path(LONG)
    with pytest.raises(UsageError, match="is not a path"):
        atomic.absolute_path("a\0b")


def test_recorded_paths_move_along_with_their_folder(tmp_path) -> None:
    code = (
        "import os; from pathlib import Path; from wmtk.datasets.storage import atomic\n"
        "here = Path.cwd()\n"
        "print(atomic.portable_path(here / 'a' / 'b'), atomic.portable_path(Path('/x')))\n"
        "os.chdir('/'); print(atomic.portable_path(here / 'a'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["a/b", "/x", str(tmp_path.resolve() / "a")]
