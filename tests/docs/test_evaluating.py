"""docs/evaluating.md: its commands and its example work, with a policy that has learned nothing."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from wmtk.scores import EvaluationRecord

pytest.importorskip("torch")
pytest.importorskip("ale_py")
pytest.importorskip("imageio_ffmpeg")
pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "evaluating.md").read_text()
SMALL = (
    *("model.cnn_depth=2", "model.units=8", "model.rssm.deter=8", "model.rssm.hidden=8"),
    *("model.rssm.stoch=2", "model.rssm.classes=4", "data.batch_size=2", "data.length=6"),
)
SMALL_POLICY = ("behavior.layers=1", "behavior.units=8", "behavior.horizon=2")


@pytest.fixture
def folder(tmp_path, monkeypatch, run_wmtk) -> Path:
    """A current folder with the run of the page."""
    monkeypatch.chdir(tmp_path)
    small, small_policy = (
        [word for setting in settings for word in ("--set", setting)]
        for settings in (SMALL, SMALL_POLICY)
    )
    for command in (
        ["collect", "wmtk/Catch-v0", "--out", "catch.zarr", "--episodes", 4, "--seed", 0],
        ["train-model", "catch.zarr", "--out", "runs/catch", "--updates", 1, *small],
        ["train-policy", "runs/catch", "--out", "runs/catch-policy", "--updates", 1, *small_policy],
    ):
        done = run_wmtk(*command)
        assert done.exit_code == 0, done.stderr
    return tmp_path


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_works(folder, run_wmtk) -> None:
    policy, *examples = blocks("python")
    assert len(examples) == 2
    (folder / "my_policies.py").write_text(policy)
    shown = {}
    for line in re.findall(r"^\$ wmtk (.*)$", "\n".join(blocks("console")), re.MULTILINE):
        command, _, file = line.partition(" >> ")
        short = ["--env-set", "time_limit=40"] if "atari" in command else []  # Pong takes a minute
        done = run_wmtk(*shlex.split(command), *short)
        assert done.exit_code == 0, (command, done.stderr)
        shown[line] = done.stdout
        if file:
            with (folder / file).open("a") as kept:
                kept.write(done.stdout)
    follow = next(text for line, text in shown.items() if "my_policies" in line)
    assert "return        3.91  1.481  3.71 to 4.11" in follow  # exactly as on the page
    assert "return        3.91  1.481  3.71 to 4.11" in PAGE
    assert "random         2" in shown["scores pong.json"]
    assert (folder / "catch.mp4").stat().st_size > 0
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "evaluating.md", "exec"), names)


def test_its_fields_are_those_of_the_record(folder, run_wmtk) -> None:
    done = run_wmtk("eval", "runs/catch-policy", "--episodes", 1, "--json")
    table = PAGE.partition("## Records")[2].partition("\n## ")[0]
    documented = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    of_scores = set(EvaluationRecord("wmtk/Catch-v0", 0, (1.0,)).to_json())
    assert set(json.loads(done.stdout)) - of_scores == documented
