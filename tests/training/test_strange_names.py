"""A dataset and runs full of control characters and markup, shown by every command."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from wmtk.datasets import Dataset, Source
from wmtk.envs import resolve
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

from .conftest import SETTINGS

STRANGE = "[/x][red]\x1b[31m\x1b]0;title\x07\x9b2J\r\x7f\u202e"
FOLDER = "[/x][seed=1]\x1b[31m\u202e"
# What must not reach a terminal; typer takes colors out of what it prints by itself.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FOREIGN = ("Traceback", "MarkupError", "not foreseen")


@pytest.fixture(scope="module")
def made(catch, tmp_path_factory) -> Path:
    """A folder with a dataset, a model and a policy."""
    folder = tmp_path_factory.mktemp("strange") / FOLDER
    folder.mkdir(parents=True)
    original = Dataset.open(catch)
    env = {**resolve("wmtk/Catch-v0").settings, "task": STRANGE, "more": {STRANGE: STRANGE}}
    attributes = {"sources": [{"name": STRANGE, "version": 1, "episodes": 12}]}
    path = folder / "catch.zarr"
    with Dataset.create(path, original.schema, env=env, attributes=attributes) as dataset:
        for episode in original:
            maker = replace(
                episode.provenance, policy=STRANGE, env_id=STRANGE, code_version=STRANGE
            )
            dataset.append(replace(episode, provenance=maker))
        dataset.tag("first", STRANGE)
    small = {**SETTINGS, "behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}
    config = training_config("tiny", overrides=small)
    train_model([Source(Dataset.open(path))], folder / "model", config, updates=1)
    train_policy(folder / "model", folder / "policy", updates=1, episodes=0)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch) -> Path:
    """A copy, next to which commands may write."""
    shutil.copytree(made, tmp_path / FOLDER)
    monkeypatch.chdir(tmp_path)
    return tmp_path / FOLDER


@pytest.fixture
def harmless(run_wmtk, folder):
    """Run a command, look at everything that it prints, and return that."""

    def run(*words, fails: bool = False) -> str:
        outputs = []
        for debug in [[], ["--debug"]] if fails else [[]]:
            done = run_wmtk(*debug, *words)
            printed = done.stdout + done.stderr
            assert bool(done.exit_code) == fails, (words, printed)
            assert not RAW.search(printed), (words, ascii(printed))
            if not debug:
                assert not any(word in printed for word in FOREIGN), (words, printed)
            outputs.append(printed)
        return "".join(outputs[0].split())

    return run


def test_data_commands(harmless, folder) -> None:
    data = folder / "catch.zarr"
    shown = harmless("data", "info", data)
    assert r"[/x][red]\x1b[31m" in shown  # the task as it is
    assert r"[seed=1]\x1b[31m\u202e/catch.zarr" in shown
    listed = harmless("data", "list", folder.parent.parent)
    assert r"[/x][seed=1]\x1b[31m\u202e/catch.zarr" in listed
    assert r"[/x][red]\x1b[31m" in harmless("data", "tag", data)
    json.loads(harmless("data", "info", data, "--json"))
    broken = folder / "broken.zarr"
    shutil.copytree(data, broken)
    (broken / "zarr.json").write_bytes(b"")
    (broken / "tags" / "first.json").write_text('{"note": "\x1b"}')
    out = folder / "out"
    harmless("data", "list", folder)
    harmless("data", "validate", data)
    harmless("data", "validate", broken, fails=True)
    harmless("data", "repair", broken, "--yes", fails=True)
    harmless("data", "tag", data, "second", "--note", STRANGE)
    harmless("data", "tag", data, STRANGE, fails=True)
    harmless("data", "tag", data, "second", "--delete", "--yes")
    harmless("data", "merge", data, "--out", out / "merged.zarr")
    harmless("data", "merge", data, "--out", data, fails=True)  # it exists, and no one can be asked
    harmless("data", "split", data, "--train", out / "a.zarr", "--val", out / "b.zarr")
    harmless("data", "filter", data, "--out", out / "c.zarr", "--policy", "*x*")
    harmless("data", "filter", data, "--out", out / "d.zarr", "--policy", STRANGE + "x", fails=True)
    harmless("data", "export", data, "--format", "dreamer-npz", "--out", out / "npz")
    harmless("data", "import", out / "npz", "--out", out / "e.zarr")
    harmless("data", "import", out / STRANGE.replace("/", "\x1b"), "--out", out / "f", fails=True)
    harmless("data", "sheet", data)
    harmless("data", "play", data, "--out", out / "x.gif")
    harmless("data", "compact", data)
    harmless("data", "evict", data, "--capacity", 100, "--yes")


def test_commands_that_train_and_play(harmless, folder, small) -> None:
    data, model, policy = folder / "catch.zarr", folder / "model", folder / "policy"
    shown = harmless("runs", folder)
    assert r"[/x][red]\x1b[31m" in shown
    harmless("runs", folder, "--json")
    harmless("train-model", data, "--out", folder / "m", "--updates", 1, *small)
    tested = harmless("train-policy", model, "--out", folder / "p", "--updates", 1)
    assert "isnotanameofatask" in tested
    assert "realreturnwmtkeval" in tested
    harmless("eval", policy, fails=True)
    one = ["--episodes", 1, "--envs", 1, "--workers", 0]
    harmless("eval", policy, "--task", "wmtk/Catch-v0", *one)
    harmless("eval", policy, "--task", STRANGE, fails=True)
    harmless("collect", "wmtk/Catch-v0", "--policy", policy, "--out", folder / "new.zarr", *one)
    harmless("collect", "wmtk/Catch-v0", "--policy", STRANGE, "--out", "z", *one, fails=True)
    harmless("online", "wmtk/Catch-v0", "--out", policy, fails=True)
    (folder / "scores.csv").write_text(f"game,seed,score,agent\npong,0,3,{STRANGE[:-3]}\n")
    harmless("scores", folder / "scores.csv")


@pytest.mark.slow
def test_viz_commands(harmless, folder, monkeypatch) -> None:
    data, model, policy = folder / "catch.zarr", folder / "model", folder / "policy"
    few = ["--horizon", 5, "--episodes", 2]
    harmless("viz", "metrics", policy, data, *few, "--windows", 4)
    harmless("viz", "compare", model, policy, data, *few, "--windows", 4)
    harmless("viz", "openloop", model, data, folder / "a.png", *few)
    harmless("viz", "recon", model, data, folder / "b.png", "--episodes", 1)
    harmless("viz", "dream", policy, folder / "c.png", *few)
    harmless("viz", "codes", model, data, folder / "d.png", "--windows", 2, "--rows", 5)
    harmless("viz", "intervene", model, data, folder / "e.png", "--frames", 1, "--variables", 1)
    harmless("viz", "report", policy, data, *few, "--windows", 4)
    harmless("viz", "returns", policy, fails=True)
    from wmtk.viz.live import server

    def run(self, on_ready):
        on_ready(self.address)
        self.engine.stop()
        self.socket.close()

    monkeypatch.setattr(server.Server, "run", run)
    page = ["viz", "serve", policy, data, "--port", 0, "--no-open"]
    harmless(*page)
    harmless(*page, "--record", data, fails=True)
