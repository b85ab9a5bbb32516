"""docs/acting.md: its commands and programs work, with hardly any updates, in a small model."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from wmtk.datasets import Dataset
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.presets import ABLATIONS, with_overrides

pytest.importorskip("torch")
PAGE = (Path(__file__).parents[2] / "docs" / "acting.md").read_text()
SMALL = (
    *("model.cnn_depth=2", "model.units=8", "model.rssm.deter=8", "model.rssm.hidden=8"),
    *("model.rssm.stoch=2", "model.rssm.classes=4", "data.batch_size=2", "data.length=6"),
)
SMALL_POLICY = (
    *(
        "behavior.layers=1",
        "behavior.units=8",
        "behavior.horizon=2",
        "behavior.imagination_starts=4",
    ),
)


def commands() -> list[list[str]]:
    """What is behind the prompts, with a thousandth of the updates and a few episodes."""
    found = []
    for line in re.findall(r"^\$ wmtk (.*)$", PAGE, re.MULTILINE):
        name, *rest = shlex.split(re.sub(r"(--(?:steps|updates) \d+)000\b", r"\1", line))
        if name == "collect":
            rest += ["--steps", "160"] if "--steps" in rest else ["--episodes", "2"]
        small = {"train-model": SMALL, "train-policy": SMALL_POLICY}.get(name, ())
        rest += [word for setting in small for word in ("--set", setting)]
        found.append([name, *rest, *(["--episodes", "2"] if name == "eval" else [])])
    return found


@pytest.mark.slow
def test_the_commands_and_programs_work(tmp_path, monkeypatch, run_wmtk) -> None:
    monkeypatch.chdir(tmp_path)
    shown = {}
    for command in commands():
        done = run_wmtk(*command)
        assert done.exit_code == 0, (command, done.stderr)
        shown[" ".join(command)] = done.stdout + done.stderr
    careful = next(text for command, text in shown.items() if "--penalty" in command)
    block = PAGE.partition("--penalty 10\n")[2].partition("```")[0]
    for line in block.splitlines():
        start = re.match(r" ?(\D*?)( -?\d|$)", line)
        assert line == "…" or start[1].strip() in careful, line
    assert Run(Path("runs/catch-policy")).step == 4
    assert Dataset.open("explored.zarr")[0].provenance.policy == "curious/explorer@1"

    printed: list[str] = []
    names = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    for program in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(program, names)
    assert float(printed[0]) in range(-5, 6)
    assert printed[1] == "20 runs/catch"


def test_the_page_names_every_setting_and_its_default() -> None:
    """And every ablation that concerns the policy."""
    table = PAGE.partition("## Settings")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", table, re.MULTILINE)
    defaults = TrainingConfig().behavior
    named = set()
    for cell, told in rows:
        parts = [name.strip("`") for name in cell.split(", ")]
        parent = parts[0].removeprefix("behavior.").rpartition(".")[0]
        for name, value in zip(parts, told.split(", "), strict=True):
            name = f"{parent}{name}" if name.startswith(".") else name.removeprefix("behavior.")
            named.add(name.partition(".")[0])
            found: object = defaults
            for part in name.split("."):
                found = getattr(found, part)
            assert json.loads(value.strip("`")) == found, name
    assert named == set(type(defaults).model_fields)
    for ablation in ABLATIONS:
        changes = TrainingConfig().diff(with_overrides(TrainingConfig(), [ablation], {}))
        if any(name.startswith("behavior.") for name in changes):
            assert f"`{ablation}`" in table, ablation
