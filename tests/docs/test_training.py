"""docs/training.md: its commands and programs work, with fewer updates than it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from wmtk.runs.run_directory import Run
from wmtk.training.presets import ABLATIONS, PRESETS

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
pytestmark = pytest.mark.slow


def commands() -> list[list[str]]:
    """What is behind the prompts; a hundredth of the updates is enough."""
    found = re.findall(r"^\$ wmtk (.*)$", PAGE, re.MULTILINE)
    fewer = [re.sub(r"(train-model .*--updates \d+)00\b", r"\1", line) for line in found]
    return [shlex.split(line) for line in fewer]


def test_the_commands_and_programs_work(tmp_path, monkeypatch, run_wmtk) -> None:
    monkeypatch.chdir(tmp_path)
    refused = []
    for command in commands():
        done = run_wmtk(*command)
        if done.exit_code:
            refused.append((command, done.exit_code, done.stderr))
    assert [(command[-1], code) for command, code, _ in refused] == [("kl_scale=0.3", 2)]
    assert "Did you mean 'model.kl_scale'?" in refused[0][2]
    assert Run(Path("runs/catch")).step == 30
    assert len(Run(Path("runs/mix")).about["data"]) == 2

    printed: list[str] = []
    names = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(programs) == 4
    for program in programs:
        exec(program, names)
    shown = re.findall(r"^print\(.*?\)  # ([^:\n]*)", "".join(programs), re.MULTILINE)
    assert printed == [line.strip() for line in shown]


def test_the_page_names_every_preset_and_ablation() -> None:
    for name in [*PRESETS, *ABLATIONS]:
        assert f"`{name}`" in PAGE, name
