"""The soak of `wmtk online` runs, at a length that measures nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

psutil = pytest.importorskip("psutil")
pytest.importorskip("torch")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SCRIPT.parent)
    import soak

    return soak


def test_the_slope_is_that_of_the_second_half_per_hour(soak) -> None:
    early = [soak.Sample(minute, 7.0 * minute, 50, 9, 3, 1.0) for minute in range(10)]
    late = [
        soak.Sample(minute, 100 + 0.5 * minute, 4, 2, 1, 3 - minute) for minute in range(10, 20)
    ]
    found = soak.slope([*early, *late, soak.Sample(20, 9.0, 9, 9, 9, float("nan"))])
    assert found.memory == pytest.approx(30)
    assert found.replay == pytest.approx(-60)
    assert (found.files, found.threads, found.processes) == pytest.approx((0, 0, 0), abs=1e-6)


@pytest.mark.slow
def test_a_short_soak(tmp_path: Path) -> None:
    manual = tmp_path / "manual.md"
    # As in the background of a script, where Ctrl-C is ignored.
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, SCRIPT]
    command += ["--minutes", 0.25, "--capacity", 500, "--markdown", manual]
    done = subprocess.run(
        map(str, command),
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    text = manual.read_text()
    assert "### A soak of wmtk online" in text
    for what in ("memory", "files", "threads", "processes"):
        assert f"{what} in the last quarter" in text
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info)]
