"""The benchmark of collecting runs, at a size that measures nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "collect.py"
pytestmark = pytest.mark.slow
for package in ("ale_py", "cv2", "h5py", "minari"):
    pytest.importorskip(package)


def test_collecting_is_measured_against_all(tmp_path: Path) -> None:
    report, manual = tmp_path / "report.json", tmp_path / "report.md"
    size = ("--quick", "--steps", 50, "--rounds", 1, "--lengths", 100, 200)
    outputs = ("--json", report, "--markdown", manual)
    command = [sys.executable, SCRIPT, *size, *outputs]
    done = subprocess.run(map(str, command), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    tables = {table["title"]: table["rows"] for table in json.loads(report.read_text())}
    assert all(title in done.stdout and title in manual.read_text() for title in tables)
    rates = tables["Collecting Pong at random"]
    assert [row["what"] for row in rates].count("wmtk") == 3
    assert {row["what"] for row in rates} >= {"bare", "AsyncVectorEnv", "Minari"}
    assert [row["steps"] for row in tables["Memory by length of the run"]] == ["100", "200"]
    assert any(row["target"] == "≥ 3×" for row in tables["Targets"])
