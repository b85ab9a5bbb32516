"""Each ablation of Table 2 trains, and its log shows what it left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "ablations.py"


def test_every_ablation_of_the_table_trains_and_reports(tmp_path: Path) -> None:
    manual = tmp_path / "results.md"
    size = ("--steps", 400, "--updates", 2, "--markdown", manual)
    command = [sys.executable, SCRIPT, *size]
    done = subprocess.run(map(str, command), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    lines = [line.strip("| ").split(" | ") for line in manual.read_text().splitlines()]
    rows = {(cells[0], len(cells)): cells[1:] for cells in lines if len(cells) in (6, 8)}
    models = {name: cells for (name, count), cells in rows.items() if count == 8}
    del models["---"]
    assert len(models) == 6
    assert [name for name, cells in models.items() if "–" in cells] == ["no-discrete-latents"]
    assert len({tuple(cells) for cells in models.values()}) == 6  # each of them is another model
    policies = [name for name, count in rows if count == 6]
    assert policies[-2:] == ["full agent", "no-policy-reinforce"]
