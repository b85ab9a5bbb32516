"""docs/collecting.md: its commands work, with faster tasks in place of its own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from wmtk.datasets import Dataset

PAGE = Path(__file__).parents[2] / "docs" / "collecting.md"
pytestmark = pytest.mark.slow
for package in ("h5py", "minari"):
    pytest.importorskip(package)
# Discrete and continuous actions, one and three channels, as the tasks of the page.
TASKS = {"atari_pong": "wmtk/Catch-v0", "dmc_cartpole_balance": "wmtk/Reach-v0"}


def commands() -> list[list[str]]:
    found = re.findall(r"^\$ wmtk (.*)$", PAGE.read_text(), re.MULTILINE)
    return [[TASKS.get(word, word) for word in shlex.split(line)] for line in found]


def test_the_commands_work(tmp_path, monkeypatch, run_wmtk) -> None:
    monkeypatch.chdir(tmp_path)
    refused = []
    for command in commands():
        if command[:2] == ["data", "play"]:
            pytest.importorskip("imageio_ffmpeg")
        done = run_wmtk(*command)
        if done.exit_code:
            refused.append((command, done.stderr))
    assert [command[1] for command, _ in refused] == ["merge"]
    assert "differ in their arrays" in refused[0][1]
    made = {path.name for path in Path("data").iterdir()}
    assert {"pong.zarr", "cartpole.zarr", "more.zarr", "pong-all.zarr", "train.zarr"} <= made
    assert Dataset.open("data/pong.zarr").num_steps >= 20_000
    sides = [Dataset.open(f"data/{side}.zarr").num_episodes for side in ("train", "val")]
    assert sum(sides) == Dataset.open("data/pong-all.zarr").num_episodes


EXIT_CODES = [
    (["wmtk/Catch-v0", "--episodes", "1"], 0),
    (["wmtk/Catch-v0", "--episodes", "1", "--append", "--capacity", "1000"], 0),
    (["wmtk/Catch-v0", "--episodes", "1"], 1),  # it is there already
    (["wmtk/Ctach-v0", "--episodes", "1"], 2),
    (["wmtk/Catch-v0"], 2),
    (["wmtk/Catch-v0", "--episodes", "1", "--policy", "greedy"], 2),
    (["wmtk/Catch-v0", "--episodes", "1", "--env-set", "color=red"], 2),
    (["wmtk/Catch-v0", "--episodes", "1", "--human"], 2),
]


def test_exit_codes_are_the_documented_ones(tmp_path, run_wmtk) -> None:
    for options, code in EXIT_CODES:
        assert run_wmtk("collect", *options, "--out", tmp_path / "d").exit_code == code, options
