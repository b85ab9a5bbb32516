"""A run or dataset of a stranger: nothing that it names is run or imported unless it is trusted.

Each attack would leave a file behind.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from wmtk.collecting import task_of
from wmtk.datasets import Dataset, Source
from wmtk.datasets.storage import atomic
from wmtk.envs import resolve
from wmtk.errors import TaskError, UntrustedEnvError, UsageError
from wmtk.training.model_stage import train_model
from wmtk.training.online.train import online
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config
from wmtk.viz.live import protocol
from wmtk.viz.live import server as servers
from wmtk.viz.live.catalog import ModelPool
from wmtk.viz.live.session import make_session

from .conftest import SETTINGS

OWN = """
import pathlib
from wmtk.envs.catch import CatchEnv

pathlib.Path("fired").touch()

class Mine(CatchEnv):
    def __init__(self, render_mode=None, level=""):
        super().__init__()

def make(render_mode=None):
    return CatchEnv()
"""
SHELL = {"args": "touch fired", "shell": True}
HOSTILE = {
    "a command": {"task": "subprocess:Popen", "env_id": "Popen", "kwargs": SHELL},
    "a function": {"task": "subprocess:call", "env_id": "call", "kwargs": SHELL},
    "a file in the current folder": {"task": "own_envs:Mine", "env_id": "Mine"},
    "another kind": {"task": "own_envs:Mine", "env_id": "Mine", "kind": "gymnasium"},
}
WANT = ["--episodes", 1, "--envs", 1, "--workers", 0]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """The current folder, with a module in it that tells when it is imported."""
    (tmp_path / "own_envs.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_envs", None)


@pytest.fixture
def fired(folder):
    return (folder / "fired").exists


@pytest.fixture(scope="module")
def trained(catch, tmp_path_factory) -> Path:
    """A policy run and an online run."""
    out = tmp_path_factory.mktemp("trained")
    pace = {"prefill": 60, "pretrain": 1, "train_every": 16, "envs": 1, "evaluate": 1000}
    small = {**SETTINGS, "behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}
    small |= {f"online.{name}": value for name, value in pace.items()}
    config = training_config("tiny", overrides=small)
    train_model([Source(Dataset.open(catch))], out / "model", config, updates=1, val_fraction=0)
    train_policy(out / "model", out / "policy", updates=1, episodes=0)
    online(resolve("wmtk/Catch-v0"), out / "online", config, steps=80, workers=0)
    return out


def env_of(change: dict[str, Any]) -> dict[str, Any]:
    return {**resolve("wmtk/Catch-v0").settings, "kind": "module", "kwargs": {}, **change}


def rewrite(file: Path, env: dict[str, Any]) -> None:
    """Put another environment into a document, and seal it again."""
    document = json.loads(file.read_text())
    where = document.get("attributes", {"wmtk": document})
    content = {**where["wmtk"], "env": env}
    del content["checksum"]
    where["wmtk"] = atomic.with_checksum(content)
    file.write_text(json.dumps(document if "attributes" in document else where["wmtk"]))


@pytest.fixture
def run_of(trained, folder):
    """A copy of a run, with an environment of a stranger."""

    def make(change: dict[str, Any], name: str = "policy") -> Path:
        shutil.copytree(trained / name, folder / name)
        rewrite(folder / name / "run.json", env_of(change))
        return folder / name

    return make


@pytest.fixture
def data_of(catch, folder):
    def make(change: dict[str, Any]) -> Path:
        shutil.copytree(catch, folder / "catch.zarr")
        rewrite(folder / "catch.zarr" / "zarr.json", env_of(change))
        return folder / "catch.zarr"

    return make


@pytest.fixture(params=HOSTILE)
def hostile(request) -> dict[str, Any]:
    return HOSTILE[request.param]


@pytest.fixture
def opened(monkeypatch) -> list[Any]:
    """Live pages that end at once, after what they would show was asked for."""
    made: list[Any] = []

    def run(self: Any, on_ready: Any = lambda _: None) -> None:
        on_ready(self.address)
        catalog = self.engine._catalog
        made.append((catalog, catalog.describe()))
        self.engine.stop()
        self.socket.close()

    monkeypatch.setattr(servers.Server, "run", run)
    return made


def test_eval(run_wmtk, run_of, hostile, fired) -> None:
    run = run_of(hostile)
    for policy in ([], ["--policy", "random"]):
        done = run_wmtk("eval", run, *WANT, *policy)
        assert not fired()
        assert done.exit_code == 2
        assert f"--trust-env {hostile['task']}" in done.stderr
    assert run_wmtk("viz", "returns", run, "--workers", 0).exit_code == 2
    assert not fired()


def test_train_policy_from_data_alone(run_wmtk, data_of, small, hostile, fired) -> None:
    made = run_wmtk("train-model", data_of(hostile), "--out", "model", "--updates", 1, *small)
    assert made.exit_code == 0, made.stderr
    assert f"--trust-env {hostile['task']}" in made.stderr
    done = run_wmtk("train-policy", "model", "--out", "policy", "--updates", 1)
    assert done.exit_code == 0, done.stderr
    assert f"--trust-env {hostile['task']}" in done.stderr
    assert not fired()


def test_online_resume(run_wmtk, run_of, hostile, fired) -> None:
    run = run_of(hostile, "online")
    done = run_wmtk("online", "wmtk/Catch-v0", "--out", run, "--resume", "--steps", 90)
    assert done.exit_code != 0
    assert not fired()


def test_arguments_of_a_resumed_run(run_wmtk, run_of, fired) -> None:
    kwargs = {"xml_file": "../robot.xml"}
    change = {"task": "CartPole-v1", "env_id": "CartPole-v1", "kind": "gymnasium"}
    run = run_of({**change, "kwargs": kwargs}, "online")
    done = run_wmtk("online", "CartPole-v1", "--out", run, "--resume", "--steps", 90)
    assert done.exit_code == 2
    assert "--trust-env CartPole-v1" in done.stderr


def test_collect(run_wmtk, run_of, data_of, hostile, fired) -> None:
    run, data = run_of(hostile), data_of(hostile)
    options = ["--policy", run, "--out", data, "--append", "--episodes", 1, "--workers", 0]
    done = run_wmtk("collect", "wmtk/Catch-v0", *options)
    assert done.exit_code == 0, done.stderr
    assert not fired()


def test_the_live_page(run_wmtk, run_of, data_of, hostile, fired, opened) -> None:
    run, data = run_of(hostile), data_of(hostile)
    serve = ["viz", "serve", run, "--port", 0, "--no-open"]
    for record in (data, "new.zarr"):
        done = run_wmtk(*serve, "--record", record)
        assert done.exit_code == 2
        assert f"--trust-env {hostile['task']}" in done.stderr
    assert run_wmtk(*serve).exit_code == 0
    catalog, shown = opened[0]
    assert not shown["runs"][0]["real"]
    start = protocol.Start(kind="start", source="real", run="r0", seed=0)
    with pytest.raises(UntrustedEnvError):
        make_session(catalog, ModelPool(catalog), start)
    assert not fired()


def test_a_trusted_environment_is_played(run_wmtk, run_of, fired, opened) -> None:
    run = run_of({"task": "own_envs:Mine", "env_id": "Mine"})
    refused = run_wmtk("eval", run, *WANT, "--trust-env", "own_envs:make")
    assert refused.exit_code == 2
    served = run_wmtk("viz", "serve", run, "--port", 0, "--no-open", "--trust-env", "own_envs:Mine")
    assert served.exit_code == 0, served.stderr
    assert opened[0][1]["runs"][0]["real"]
    assert not fired()  # not before it is played
    done = run_wmtk("eval", run, *WANT, "--trust-env", "own_envs:Mine")
    assert done.exit_code == 0, done.stderr
    assert fired()


def test_typing_a_task_trusts_it(run_wmtk, run_of, fired) -> None:
    run = run_of({"task": "own_envs:Mine", "env_id": "Mine"})
    done = run_wmtk("eval", run, *WANT, "--task", "own_envs:make")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("name", ["subprocess:Popen", "os:system", "builtins:exec", "json:loads"])
def test_what_is_no_environment_is_not_called(name, fired) -> None:
    for make in (
        lambda: resolve(name).make(),
        lambda: task_of(env_of({"task": name, "kwargs": SHELL}), trust_env=name).make(),
    ):
        with pytest.raises(TaskError, match=r"not a(n|) (environment|gymnasium.Env)"):
            make()
    assert not fired()


@pytest.mark.parametrize("name", ["a:b:c", ":b", "own_envs:", "os;x:y", "\x1b[2J:x", 7, ["x"], {}])
def test_what_is_no_name_is_refused(name, fired) -> None:
    with pytest.raises(UsageError):
        task_of(env_of({"task": name}), trust_env=["own_envs:Mine", "own_envs"])
    assert not fired()


def test_trust_is_of_the_whole_name() -> None:
    for trust in ("own_envs:Mine2", "own_envs", ["own_envs:", "Mine"]):
        with pytest.raises(UntrustedEnvError):
            task_of(env_of({"task": "own_envs:Mine"}), trust_env=trust)


def test_ids_that_an_import_registered_are_not_known(monkeypatch) -> None:
    spec = gym.envs.registration.EnvSpec("Own-v0", entry_point="own_envs:Mine")
    monkeypatch.setitem(gym.registry, "Own-v0", spec)
    with pytest.raises(UntrustedEnvError, match="Own-v0"):
        task_of({"task": "Own-v0"})
    assert task_of({"task": "Own-v0"}, trust_env="Own-v0").kind == "gymnasium"
    assert task_of({}, "Own-v0").env_id == "Own-v0"


def test_a_package_in_the_current_folder_is_not_installed(folder, monkeypatch, fired) -> None:
    """As Python has it in a notebook, or after an environment of the folder was imported."""
    info = folder / "own-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("own_envs\n")
    points = "[wmtk.envs]\nmine = own_envs:Mine\n[gymnasium.envs]\nx = own_envs:make\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(folder)
    spec = gym.envs.registration.EnvSpec("Own-v0", entry_point="own_envs:Mine")
    monkeypatch.setitem(gym.registry, "Own-v0", spec)
    for name in ("mine", "Own-v0"):
        with pytest.raises(UntrustedEnvError, match=name):
            task_of({"task": name})
    assert not fired()
    monkeypatch.chdir(folder.parent)  # elsewhere on the path it counts as installed
    assert task_of({"task": "mine"}).kind == "entry_point"
    assert task_of({"task": "Own-v0"}).kind == "gymnasium"


@pytest.mark.slow
@pytest.mark.parametrize("set_up", [["--workers", 2], ["--async", "--workers", 1]])
def test_processes_import_nothing_from_the_current_folder(run_wmtk, folder, small, set_up) -> None:
    for name in ("multiprocessing", "numpy", "gymnasium", "json"):
        (folder / f"{name}.py").write_text("open('hijacked', 'w')")
    if "--async" in set_up:
        pace = (
            "prefill=60",
            "pretrain=1",
            "train_every=16",
            "envs=1",
            "evaluate=1000",
            "episodes=1",
        )
        set_up = [*set_up, "--steps", 80, *small]
        set_up += [word for setting in pace for word in ("--set", f"online.{setting}")]
        done = run_wmtk("online", "own_envs:make", "--out", "run", *set_up)
    else:
        done = run_wmtk("collect", "own_envs:make", "--out", "d", "--episodes", 2, *set_up)
    assert done.exit_code == 0, done.stderr
    assert "PYTHONSAFEPATH" not in os.environ
    assert not (folder / "hijacked").exists()
    assert (folder / "fired").exists()  # the module that was named is found there all the same


@pytest.mark.parametrize("name", ["command.txt", "metrics.jsonl"])
def test_links_in_a_run_are_not_written_through(run_wmtk, run_of, folder, name) -> None:
    run, victim = run_of({}, "policy"), folder / "victim"
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)
    done = run_wmtk("train-policy", folder / "policy", "--out", run, "--resume", "--updates", 2)
    assert done.exit_code == 1, done.stderr
    assert "is a link" in done.stderr
    assert not victim.exists()


@pytest.mark.parametrize(
    "value",
    [
        "os:system",
        "subprocess.Popen",
        "own_envs.Mine",
        "robot.xml",
        "/etc/passwd",
        "../x.xml",
        "~/x",
        "a\\b",
        ".x",
    ],
)
def test_arguments_open_no_files_and_import_nothing(value) -> None:
    for kwargs in ({"xml_file": value}, {"a": [{"b": value}]}, {value: 1}):
        settings = {**resolve("CartPole-v1").settings, "kwargs": kwargs}
        for task in (None, "CartPole-v1"):
            with pytest.raises(UntrustedEnvError, match="--trust-env CartPole-v1"):
                task_of(settings, task)
        assert task_of(settings, trust_env="CartPole-v1").kwargs["kwargs"] == kwargs
        text = {**settings, "kwargs": json.dumps(kwargs)}
        with pytest.raises(UntrustedEnvError):
            task_of(text)


def test_plain_arguments_are_kept() -> None:
    kwargs = {"version": "v1.0", "size": "2.5", "text": "One. Two", "map": ["SF", "HG"], "n": 1.5}
    settings = {**resolve("CartPole-v1").settings, "kwargs": kwargs}
    assert task_of(settings).kwargs["kwargs"] == kwargs


def test_what_is_recorded_cannot_choose_how_a_task_is_made() -> None:
    settings = {**resolve("CartPole-v1").settings, "env_id": "subprocess:Popen", "kind": "module"}
    assert task_of(settings) == resolve("CartPole-v1")
