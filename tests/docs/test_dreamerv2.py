"""docs/dreamerv2.md: its numbers are those of the preset, and it names what can be switched off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch")

from wmtk.training.presets import ABLATIONS, training_config

PAGE = (Path(__file__).parents[2] / "docs" / "dreamerv2.md").read_text()
VALUES = re.findall(r"^\|.*\| `([\w.]+)` \| ([\w.]+) \|$", PAGE, re.MULTILINE)


def setting(values: dict[str, Any], name: str) -> Any:
    for part in name.split("."):
        values = values[part]
    return values


def test_the_numbers_are_those_of_the_preset() -> None:
    atari = training_config("atari").model_dump()
    assert len(VALUES) > 30
    for name, shown in VALUES:
        found = yaml.safe_load(shown)
        assert found == pytest.approx(setting(atari, name)), name


def test_every_ablation_is_there_with_what_it_changes() -> None:
    plain = training_config("atari")
    rows = dict(re.findall(r"^\| `(\w[\w-]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows.keys() == ABLATIONS.keys()
    for name, text in rows.items():
        changed = plain.diff(training_config("atari", (name,)))
        assert changed
        for full in changed:
            assert any(named and full.startswith(named) for named in re.findall(r"`(.+?)`", text))
