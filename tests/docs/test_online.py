"""docs/online.md: its table is that of the settings, and what its dashboard shows is possible."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

pytest.importorskip("torch")

from wmtk.runs.training_config import OnlineConfig
from wmtk.training.presets import training_config

PAGE = (Path(__file__).parents[2] / "docs" / "online.md").read_text()


def test_the_table_has_every_setting_with_the_values_of_the_presets() -> None:
    head, *rows = re.findall(r"^\| `?(\w[\w.]+)`? \| (.*) \|.*\|$", PAGE, re.MULTILINE)
    presets = [name.strip("` ") for name in head[1].split("|")]
    assert presets == ["atari", "dmc_vision", "tiny"]
    told = {name.removeprefix("online."): cells.split("|") for name, cells in rows}
    assert set(told) == set(OnlineConfig.model_fields)
    for name, cells in told.items():
        for preset, cell in zip(presets, cells, strict=True):
            shown = (cell.strip() or cells[0].strip()).replace(",", "")
            assert yaml.safe_load(shown) == getattr(training_config(preset).online, name), name


def test_the_dashboard_is_one_of_preset_tiny() -> None:
    pace = training_config("tiny").online
    steps, target = _numbers(r"([\d,]+) of ([\d,]+) steps \(")
    (updates,) = _numbers(r"updates +([\d,]+),")
    (episodes,) = _numbers(r"frames, ([\d,]+) episodes")
    (tested,) = _numbers(r"tested .* at ([\d,]+) steps")
    assert updates == pace.updates_at(steps)
    assert episodes == pace.envs * (steps // pace.envs // 79)
    assert steps < target
    assert tested == steps - steps % pace.evaluate
    (bars,) = re.findall(r"tested +(\S+)", PAGE)
    assert len(bars) == (tested - pace.prefill) // pace.evaluate
    lines = re.findall(r"^[╭│╰].*$", PAGE, re.MULTILINE)
    assert len({len(line) for line in lines}) == 1


def _numbers(pattern: str) -> list[int]:
    found = re.search(pattern, PAGE)
    assert found, pattern
    return [int(number.replace(",", "")) for number in found.groups()]
