"""docs/inspecting.md: its commands and programs work, on models that have hardly learned."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from wmtk.cli.viz.viz_app import app

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "inspecting.md").read_text()
SMALL_BATCHES = ("data.batch_size=2", "data.length=6", "logging.checkpoint_every=1")
SMALL = {
    "train-model": (
        *("model.cnn_depth=2", "model.units=8", "model.rssm.deter=8", "model.rssm.hidden=8"),
        *SMALL_BATCHES,
    ),
    "train-policy": (
        *("behavior.layers=1", "behavior.units=8", "behavior.horizon=2"),
        *SMALL_BATCHES,
    ),
}
FEWER = {  # what comes later on a command line wins
    "collect wmtk/Catch-v0": "--steps 1500 --envs 2",
    "collect atari_pong": "--steps 200 --envs 2 --env-set time_limit=200",
    "train-model": "--updates 3 --val-fraction 0.5",
    "train-policy": "--updates 2",
    "viz metrics": "--windows 4 --samples 2",
    "viz compare": "--windows 4 --samples 2",
    "viz codes": "--windows 4",
    "viz returns": "--episodes 2 --workers 0",
}


def commands() -> list[list[str]]:
    """What is behind the prompts, with less to do."""
    found = []
    for line in re.findall(r"^\$ wmtk (.*)$", PAGE, re.MULTILINE):
        more = next((text for name, text in FEWER.items() if line.startswith(name)), "")
        words = shlex.split(f"{line} {more}")
        small = [word for setting in SMALL.get(words[0], ()) for word in ("--set", setting)]
        found.append(words + small)
    return found


@pytest.mark.slow
def test_the_commands_and_programs_work(tmp_path, monkeypatch, run_wmtk) -> None:
    pytest.importorskip("ale_py")
    monkeypatch.chdir(tmp_path)
    for command in commands():
        done = run_wmtk(*command)
        assert done.exit_code == 0, (command, done.stderr)
        for word in command:
            if word.endswith((".png", ".mp4", ".gif")):
                assert Path(word).stat().st_size > 0, command

    printed: list[str] = []
    names = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) == 3
    for program in programs:
        exec(program, names)
    shown = re.findall(r"^print\(.*\)  # (\(.*|\d+)$", "".join(programs), re.MULTILINE)
    assert len(shown) == 5
    assert set(shown) <= set(printed)
    assert any(" for training a policy: " in line for line in printed)


def test_the_page_names_every_command() -> None:
    for command in app.registered_commands:
        if command.name != "serve":  # which has a page of its own
            assert f"wmtk viz {command.name} " in PAGE, command.name


def test_the_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"\]\((images/\S+)\)", PAGE)
    assert len(pictures) >= 5
    for picture in pictures:
        assert (DOCS / picture).stat().st_size < 150_000, picture
