"""`wmtk viz dream` on a run of `wmtk train-policy`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("torch")

from PIL import Image

from wmtk.training.policy_stage import train_policy

from .noise import OBS, make_run


@pytest.fixture(scope="module", params=["image", "vector"])
def made(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("dreams")
    model, data = make_run(folder, OBS[request.param])
    train_policy(model, folder / "policy", updates=1, episodes=0)
    return model, folder / "policy", data


def test_dreams_are_drawn(made: tuple[Path, Path, Path], tmp_path: Path, run_wmtk) -> None:
    _, policy, _ = made
    options = ("--context", "2", "--horizon", "4", "--episodes", "2", "--samples", "3", "--json")
    for name in ("dream.png", "dream.gif"):
        done = run_wmtk("viz", "dream", policy, tmp_path / name, *options)
        assert done.exit_code == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["held_out"] == "episodes held out of training"
        assert [len(part) for part in report["imagined_returns"]] == [3, 3]
        assert report["frames"] == (1 if name.endswith("png") else 6)
        with Image.open(tmp_path / name) as image:
            assert image.size == (report["width"], report["height"])
            assert getattr(image, "n_frames", 1) <= report["frames"]


def test_without_a_name_it_goes_into_the_run(made: tuple[Path, Path, Path], run_wmtk) -> None:
    _, policy, data = made
    done = run_wmtk("viz", "dream", policy, "--data", data, "--horizon", "2", "--episodes", "1")
    assert done.exit_code == 0, done.stderr
    (video,) = (policy / "videos").iterdir()
    assert video.name in ("dream-00000001.mp4", "dream-00000001.gif")
    assert "The mean imagined return is" in " ".join(done.stdout.split())


def test_a_replay_in_the_run_is_what_it_starts_from(
    made: tuple[Path, Path, Path], tmp_path: Path, run_wmtk
) -> None:
    _, policy, data = made
    run = shutil.copytree(policy, tmp_path / "online")
    shutil.copytree(data, run / "replay.zarr")
    out = tmp_path / "dream.png"
    done = run_wmtk("viz", "dream", run, out, "--horizon", "2", "--episodes", "1", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["dataset"] == str(run / "replay.zarr")
    assert report["held_out"] == "all episodes: the agent was trained on them"


def test_runs_without_an_actor_or_data_are_refused(
    made: tuple[Path, Path, Path], tmp_path: Path, run_wmtk
) -> None:
    model, policy, data = made
    done = run_wmtk("viz", "dream", model, tmp_path / "out.png")
    assert done.exit_code == 1
    assert "has no actor" in done.stderr
    assert "wmtk train-policy" in done.stderr
    done = run_wmtk("viz", "dream", policy, tmp_path / "out.jpeg")
    assert done.exit_code == 2
    moved = shutil.move(data, tmp_path / "elsewhere.zarr")
    try:
        done = run_wmtk("viz", "dream", policy, tmp_path / "out.png")
    finally:
        shutil.move(moved, data)
    assert done.exit_code == 2
    assert "--data" in done.stderr
