"""`wmtk viz returns` on a policy of Catch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from PIL import Image
from typer.testing import CliRunner

from wmtk.cli.main import app
from wmtk.datasets import Dataset, Source
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config
from wmtk.viz.policy_returns import spread_updates

from .noise import SETTINGS


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("returns")
    data = str(folder / "catch.zarr")
    options = ["--out", data, "--episodes", "2", "--workers", "0"]
    done = CliRunner().invoke(app, ["collect", "wmtk/Catch-v0", *options])
    assert done.exit_code == 0, done.output
    config = training_config("tiny", overrides={**SETTINGS, "logging.keep_checkpoints": 2})
    source = Source(Dataset.open(data))
    train_model([source], folder / "model", config, updates=1, val_fraction=0)
    train_policy(folder / "model", folder / "policy", updates=4, episodes=0)
    return folder / "policy"


def test_returns_of_checkpoints(policy: Path, tmp_path: Path, run_wmtk) -> None:
    chart = tmp_path / "returns.png"
    options = ("--episodes", "2", "--workers", "0")
    done = run_wmtk("viz", "returns", policy, *options, "--chart", chart, "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["updates"] == [3, 4]  # as many as logging.keep_checkpoints
    assert report["task"] == "wmtk/Catch-v0"
    for name in ("returns", "discounted", "imagined"):
        assert [len(part) for part in report[name]] == [2, 2]
    mean = sum(report["imagined"][1]) / 2
    assert report["comparison"]["imagined"]["value"][1] == pytest.approx(mean)
    assert report["finding"]
    with Image.open(chart) as image:
        assert min(image.size) > 300
    done = run_wmtk("viz", "returns", policy, *options, "--checkpoints", "1")
    assert done.exit_code == 0, done.stderr
    assert "needs two checkpoints or more" in " ".join(done.stdout.split())


def test_checkpoints_are_spread_over_the_training(policy: Path) -> None:
    assert spread_updates(policy, 10) == [3, 4]
    assert spread_updates(policy, 1) == [4]
