"""`wmtk viz`: its commands on runs of `wmtk train-model`, for pictures, numbers and both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from PIL import Image

from .noise import OBS, make_run

FEW = ("--horizon", "6", "--context", "2")


@pytest.fixture(scope="module", params=list(OBS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def made(kind: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_run(tmp_path_factory.mktemp(kind), OBS[kind])


def test_metrics(made: tuple[Path, Path], kind: str, run_wmtk) -> None:
    done = run_wmtk("viz", "metrics", *made, *FEW, "--windows", "6", "--samples", "2", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["held_out"] == "episodes held out of training"
    assert report["update"] == 2
    found = report["metrics"]
    assert found["windows"] == 6
    assert found["horizon"] == 6
    assert set(found["obs"]) == set(OBS[kind])
    for key, quality in found["obs"].items():
        assert quality["image"] == (key == "image")
        assert len(quality["score"]["value"]) == len(quality["skill"]["low"]) == 6
    assert set(found["factors"]) == {"height"}
    assert np.shape(found["codes"]["usage"]) == (2, 4)
    said = report["verdict"]
    assert said["grade"] in ("doubtful", "bad")  # it has hardly learned
    assert said["findings"][0]["text"].startswith(("Reliable for", "Not reliable"))
    assert {finding["grade"] for finding in said["findings"]} <= {"good", "doubtful", "bad"}
    again = run_wmtk("viz", "metrics", *made, *FEW, "--windows", "6", "--samples", "2", "--json")
    assert json.loads(again.stdout) == report


def test_metrics_for_people(made: tuple[Path, Path], kind: str, run_wmtk) -> None:
    done = run_wmtk("viz", "metrics", *made, *FEW, "--windows", "6", "--samples", "2")
    assert done.exit_code == 0, done.stderr
    for words in ("for training a policy:", "skill:", "dead classes", "height", "half of the"):
        assert words in " ".join(done.stdout.split()), words
    assert ("PSNR, dB" in done.stdout) == ("image" in OBS[kind])
    assert ("SNR, dB" in done.stdout.replace("PSNR", "")) == ("state" in OBS[kind])


@pytest.mark.parametrize("command", ["openloop", "recon"])
def test_pictures(made: tuple[Path, Path], command: str, tmp_path: Path, run_wmtk) -> None:
    options = FEW if command == "openloop" else ("--rows", "8")
    for name in ("out.png", "out.gif"):
        out = tmp_path / name
        done = run_wmtk("viz", command, *made, out, *options, "--episodes", "2", "--json")
        assert done.exit_code == 0, done.stderr
        report = json.loads(done.stdout)
        assert len(report["windows"]) == 2
        with Image.open(out) as image:
            assert image.size == (report["width"], report["height"])


def test_codes(made: tuple[Path, Path], tmp_path: Path, run_wmtk) -> None:
    out = tmp_path / "codes.png"
    done = run_wmtk("viz", "codes", *made, out, "--windows", "4", "--rows", "6", "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert np.shape(report["prior_usage"]) == (2, 4)
    assert np.shape(report["distance"]) == (2,)
    assert report["codes"]["frames"] == 24
    with Image.open(out) as image:
        assert image.size == (report["width"], report["height"])


def test_codes_of_an_episode_as_a_video(made: tuple[Path, Path], tmp_path: Path, run_wmtk) -> None:
    out = tmp_path / "codes.gif"
    options = ("--windows", "2", "--rows", "6", "--episodes", "2")
    done = run_wmtk("viz", "codes", *made, out, *options, "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["frames"] == 12  # six rows of each of two episodes
    with Image.open(out) as image:
        assert image.size == (report["width"], report["height"])


def test_codes_over_the_training(made: tuple[Path, Path], tmp_path: Path, run_wmtk) -> None:
    run, data = made
    options = ("--training", "--windows", "2", "--rows", "6", "--json")
    out = tmp_path / "learning.png"
    done = run_wmtk("viz", "codes", run, data, out, *options)
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert [moment["update"] for moment in report["training"]] == [1, 2]
    assert report["training"][1]["dead_share"] == report["dead_share"]
    done = run_wmtk("viz", "codes", run, data, tmp_path / "learning.gif", *options)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["frames"] == 2
    lone = shutil.copytree(run, tmp_path / "lone")
    shutil.rmtree(lone / "checkpoints" / "00000001")
    done = run_wmtk("viz", "codes", lone, data, out, *options)
    assert done.exit_code == 2
    assert "logging.keep_checkpoints" in done.stderr


def test_intervene(made: tuple[Path, Path], kind: str, tmp_path: Path, run_wmtk) -> None:
    out = tmp_path / "moved.png"
    done = run_wmtk("viz", "intervene", *made, out, "--frames", "2", "--json")
    if kind == "vector":
        assert done.exit_code == 2
        assert "no image observations" in done.stderr
        return
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["effect"]) == len(report["changed"]) == 2
    assert "intervention" not in report  # arrays are for Python
    video = tmp_path / "moved.gif"
    done = run_wmtk("viz", "intervene", *made, video, "--frames", "1", "--episodes", "1")
    assert done.exit_code == 0, done.stderr
    assert video.stat().st_size > 0
    with Image.open(out) as image:
        assert image.size == (report["width"], report["height"])


def test_compare(made: tuple[Path, Path], kind: str, tmp_path: Path, run_wmtk) -> None:
    run, data = made
    options = (*FEW, "--windows", "4", "--samples", "2", "--episodes", "4", "--show", "2")
    pictures = ("--chart", tmp_path / "curves.png", "--video", tmp_path / "both.png")
    done = run_wmtk("viz", "compare", run, f"{run}@2", data, *options, *pictures, "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert [model["name"] for model in report["models"]] == ["run@2 (1)", "run@2 (2)"]
    for row in report["differences"]:
        assert row["differences"][0]["value"] in (0, None), row
    assert report["episodes"] == 4
    for picture in tmp_path.iterdir():
        with Image.open(picture) as image:
            assert min(image.size) > 300
    done = run_wmtk("viz", "metrics", run, data, *options[:-2], "--json")
    verdict = json.loads(done.stdout)["verdict"]  # of the same windows, in the same words
    assert [model["verdict"] for model in report["models"]] == [verdict] * 2
    done = run_wmtk("viz", "compare", run, run, data, *options)
    assert done.exit_code == 0, done.stderr
    assert verdict["headline"] in " ".join(done.stdout.split())
    assert "within noise" in done.stdout
    assert "reliable steps" in done.stdout


def test_more_models_than_a_video_has_room_for(
    made: tuple[Path, Path], tmp_path: Path, run_wmtk
) -> None:
    run, data = made
    options = (*FEW, "--windows", "2", "--samples", "1", "--show", "1")
    out = tmp_path / "five.gif"
    done = run_wmtk("viz", "compare", *[run] * 5, data, *options, "--video", out, "--json")
    assert done.exit_code == 0, done.stderr
    assert len(json.loads(done.stdout)["models"]) == 5
    assert "without run@2 (5)" in " ".join(done.stderr.split())
    assert out.stat().st_size > 0


def test_one_run_is_no_comparison(made: tuple[Path, Path], run_wmtk) -> None:
    done = run_wmtk("viz", "compare", *made)
    assert done.exit_code == 2
    assert "two runs or more" in done.stderr


def test_a_horizon_longer_than_the_episodes_is_cut(made: tuple[Path, Path], run_wmtk) -> None:
    done = run_wmtk("viz", "metrics", *made, "--windows", "3", "--samples", "1", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["horizon"] == 13 - 5


def test_what_cannot_work_is_refused(
    made: tuple[Path, Path], kind: str, tmp_path: Path, run_wmtk
) -> None:
    run, data = made
    done = run_wmtk("viz", "openloop", run, data, tmp_path / "out.jpeg")
    assert done.exit_code == 2
    assert ".png" in done.stderr
    done = run_wmtk("viz", "metrics", data, data)
    assert done.exit_code == 1
    assert "is not a run directory" in done.stderr
    done = run_wmtk("viz", "metrics", run, data, "--checkpoint", "7")
    assert done.exit_code == 1
    if kind != "vector":
        return
    other = tmp_path / "other"
    other.mkdir()
    _, images = make_run(other, OBS["image"])
    done = run_wmtk("viz", "metrics", run, images)
    assert done.exit_code == 1
    assert "do not fit together" in done.stderr


def test_without_a_name_files_go_into_the_run(made: tuple[Path, Path], run_wmtk) -> None:
    run, _ = made
    few = ("--episodes", "1", "--rows", "4")
    for command in ("recon", "codes"):
        done = run_wmtk("viz", command, *made, *few, "--json")
        assert done.exit_code == 0, done.stderr
        path = Path(json.loads(done.stdout)["path"])
        assert path.parent == run / ("videos" if command == "recon" else "images")
        assert path.stem == f"{command}-00000002"
        assert path.is_file()
