"""The benchmark of the world model runs, at a size that measures nothing and without its peers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
from wmtk.training.precision import fast_bfloat16

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.slow


def test_updates_are_measured(tmp_path: Path) -> None:
    report, manual = tmp_path / "report.json", tmp_path / "report.md"
    # One thread: two of them that other tests hold up would wait for each other.
    size = ("--quick", "--threads", 1, "--only", "model16", "full16", "tiny", "--peers")
    outputs = ("--folder", tmp_path / "peers", "--json", report, "--markdown", manual)
    command = [sys.executable, BENCHMARKS / "model.py", *size, *outputs]
    done = subprocess.run(map(str, command), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    tables = {table["title"]: table["rows"] for table in json.loads(report.read_text())}
    assert all(title in done.stdout and title in manual.read_text() for title in tables)
    # Where the processor computes in bfloat16, ours takes part in float32 too.
    ours, *in_full = tables["The world model's update, B = 2, L = 8"]
    assert len(in_full) == fast_bfloat16()
    assert ours["parameters"] == "19,975,379"
    assert ours["ratio"] == "1.00×"
    ours, *in_full = tables["The full update, B = 2, L = 8"]
    assert len(in_full) == fast_bfloat16()
    assert float(ours["of it behavior"].split()[0]) < float(ours["seconds"].split()[0])
    assert {row["threads"] for row in tables["Updates of the preset tiny"]} == {"1"}


def test_a_contender_that_dies_is_named_with_what_it_said(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text("import sys; sys.exit('no such package')")
    program = (
        "import sys; from pathlib import Path; from model_contender import Contender; "
        f"Contender('a peer', sys.executable, {str(script)!r}, "
        f"folder=Path({str(tmp_path)!r}), threads=1, warmup=1)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=BENCHMARKS, timeout=60)
    assert done.returncode == 1
    assert "a peer ended with exit code 1" in done.stderr
    assert "no such package" in done.stderr
