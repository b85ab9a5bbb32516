"""The benchmarks run, at a size that measures nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow
for package in ("ale_py", "cv2", "h5py", "minari", "torch"):
    pytest.importorskip(package)


def run(script: str, *args: object) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dataset_benchmark_measures_everything(tmp_path: Path) -> None:
    report, manual = tmp_path / "report.json", tmp_path / "report.md"
    size = ("--quick", "--steps", 360, "--large", 1440, "--colors", "gray")
    outputs = ("--json", report, "--markdown", manual)
    shown = run("datasets.py", *size, "--folder", tmp_path / "data", *outputs)
    tables = {table["title"]: table["rows"] for table in json.loads(report.read_text())}
    assert all(title in shown and title in manual.read_text() for title in tables)
    readers = {row["reader"] for row in tables["Batches of 50 × 50 from disk, gray"]}
    assert {"wmtk, 512 MB", "Minari, dataset[i]", "npz episodes"} <= readers
    games = [row["game"] for row in tables["Size on disk, gray"]]
    assert games[0] == "pong"
    assert games[-1] == "all"
    assert len(tables["Batches from memory"]) == 2
    assert len(tables["Appending"]) == 4
    assert len(tables["Targets"]) == 20


def test_codec_benchmark(tmp_path: Path) -> None:
    shown = run("compression.py", "--steps", 360, "--rows", 60, "--folder", tmp_path)
    assert "Codecs, gray" in shown
    assert "Codecs, rgb" in shown
