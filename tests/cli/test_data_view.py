"""wmtk data sheet and wmtk data play."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PillowImage

from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.spaces import ArraySpec
from wmtk.viz.episode_media import beside


@pytest.fixture
def dataset(tmp_path):
    schema = Schema(
        obs={"image": ArraySpec("box", (16, 16, 3), "uint8", 0, 255)},
        action=ArraySpec("discrete", (), "int64", 0, 2),
    )
    rng = np.random.default_rng(0)
    with Dataset.create(tmp_path / "d.zarr", schema, env={"env_id": "wmtk/Catch-v0"}) as made:
        for number in range(3):
            reward = np.zeros(6)
            reward[-1] = number
            image = rng.integers(0, 256, (6, 16, 16, 3), np.uint8)
            action = np.array([0, 1, 2, 0, 1, 2])
            made.append(
                Episode({"image": image}, action, reward, True, False, provenance=Provenance())
            )
            if number == 1:
                made.tag("two")
    return tmp_path / "d.zarr"


def test_sheet(run_wmtk, dataset, tmp_path):
    result = run_wmtk(
        "data", "sheet", dataset, "--out", tmp_path / "s.png", "--frames", 3, "--json"
    )
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["path"] == str(tmp_path / "s.png")
    assert [row["why"] for row in told["episodes"]] == ["first, worst", "", "last, best"]
    assert told["image"] == "image"
    with PillowImage.open(told["path"]) as opened:
        assert opened.size == (told["width"], told["height"])


def test_sheet_of_a_tagged_version_beside_the_dataset(run_wmtk, dataset):
    result = run_wmtk("data", "sheet", dataset, "--tag", "two")
    assert result.exit_code == 0, result.stderr
    assert "episodes 0 (first, worst), 1 (last, best)" in result.stdout
    assert (dataset.parent / "d-sheet.png").exists()


def test_play(run_wmtk, dataset, tmp_path):
    out = tmp_path / "e.gif"
    result = run_wmtk("data", "play", dataset, "--episode", -1, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["episode"], told["frames"], told["end"]) == (2, 6, "terminated")
    assert told["total_reward"] == 2
    assert out.exists()


def test_play_writes_mp4_beside_the_dataset(run_wmtk, dataset):
    pytest.importorskip("imageio_ffmpeg")
    result = run_wmtk("data", "play", dataset, "--episode", 1)
    assert result.exit_code == 0, result.stderr
    assert (dataset.parent / "d-episode-1.mp4").stat().st_size > 0
    assert "return 1" in result.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["play", "--episode", "3"], "0 to 2"),
        (["play", "--out", "x.avi"], ".mp4, .webm, .gif, .png"),
        (["sheet", "--out", "x.jpg"], "Use one of: .png."),
        (["sheet", "--image", "depth"], "It has: image."),
        (["sheet", "--frames", "1"], "--frames"),
    ],
)
def test_usage_errors(run_wmtk, dataset, args, message):
    command, *options = args
    result = run_wmtk("data", command, dataset, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_files_beside_a_dataset(tmp_path, monkeypatch):
    (tmp_path / "catch.zarr").mkdir()
    monkeypatch.chdir(tmp_path / "catch.zarr")
    assert beside(tmp_path / "catch.zarr", "sheet.png") == tmp_path / "catch-sheet.png"
    assert str(beside(tmp_path / "plain", "sheet.png").name) == "plain-sheet.png"
    assert beside(Path(), "sheet.png") == tmp_path / "catch-sheet.png"
