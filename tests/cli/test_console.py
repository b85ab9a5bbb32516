"""What the commands share."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import typer
from rich.console import Console

from wmtk.cli.common import console
from wmtk.cli.common.console import (
    confirm,
    emit,
    human_bytes,
    human_count,
    human_time,
    progress,
    to_plain,
)
from wmtk.cli.common.options import parse_pairs, parse_settings
from wmtk.errors import UsageError


@dataclass
class Sample:
    path: Path
    scores: tuple[float, ...]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_996, "10.0 kB"),
        (12_345_678, "12.3 MB"),
        (999_700, "1.00 MB"),
        (8e9, "8.00 GB"),
        (5e18, "5000 PB"),
    ],
)
def test_human_bytes(size, text):
    assert human_bytes(size) == text


def test_human_numbers():
    assert human_count(1234567) == "1,234,567"
    assert human_count(1, "episode") == "1 episode"
    assert human_count(2000, "episode") == "2,000 episodes"
    assert [human_time(s) for s in (0, 59.6, 754, 3661)] == ["0:00", "1:00", "12:34", "1:01:01"]


def test_to_plain():
    sample = Sample(Path("a") / "b", (1.5, float("nan"), float("inf")))
    data = {1: sample, "n": np.int64(3), "x": np.array([[1.0, np.nan]]), "none": None, "on": True}
    assert to_plain(data) == {
        "1": {"path": "a/b", "scores": [1.5, None, None]},
        "n": 3,
        "x": [[1.0, None]],
        "none": None,
        "on": True,
    }


def test_emit(capsys):
    emit({"a": 1}, json=True, render=lambda data: "unused")
    emit({"a": 1}, json=False, render=lambda data: f"a is {data['a']}")
    out = capsys.readouterr().out
    assert json.loads(out[: out.index("}") + 1]) == {"a": 1}
    assert out.endswith("a is 1\n")


def test_confirm(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    confirm("Delete?", yes=True)
    with pytest.raises(UsageError, match="--yes"):
        confirm("Delete?", yes=False)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    answers = iter(["y", "n"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(answers))
    confirm("Delete?", yes=False)
    with pytest.raises(typer.Abort):
        confirm("Delete?", yes=False)


def test_progress_prints_plain_lines_without_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(console, "PLAIN_INTERVAL", 0.0)
    with progress("collect [x]", 4, noun="step") as bar:
        bar.advance(2)
        bar.update(completed=4, description="done")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("collect [x]: 2 steps of 4 steps (50%)")
    assert lines[-1] == "done: 4 steps in 0:00"


def test_progress_is_quiet_between_the_intervals(capsys):
    with progress("count", noun="byte") as bar:
        for _ in range(100):
            bar.advance(1000)
    captured = capsys.readouterr()
    assert captured.err == "count: 100 kB in 0:00\n"
    assert captured.out == ""


def test_progress_says_nothing_final_about_a_failure(capsys):
    with pytest.raises(ValueError), progress("fail", 10):
        raise ValueError
    assert capsys.readouterr().err == ""


def test_progress_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=screen, force_terminal=True, width=100))
    with progress("write", 3e6, noun="byte") as bar:
        bar.advance(3e6)
    assert "3.00 MB" in screen.getvalue()


def test_settings_are_json_or_text_and_need_a_value() -> None:
    texts = ["depth=4", "rgb=true", "name=pong", "a.b=[1, 2]", "equation=x=y"]
    assert parse_settings(texts) == {
        "depth": 4,
        "rgb": True,
        "name": "pong",
        "a.b": [1, 2],
        "equation": "x=y",
    }
    assert parse_pairs(["depth=4"], "--set") == {"depth": "4"}
    with pytest.raises(UsageError, match="lacks a value"):
        parse_pairs(["depth"], "--set")
