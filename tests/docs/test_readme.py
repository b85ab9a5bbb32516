"""README.md: what it shows under "Use" works as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.slow
def test_the_commands_and_the_example_work(tmp_path, monkeypatch, run_wmtk) -> None:
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.chdir(tmp_path)
    use = README.partition("## Use")[2].partition("## More")[0]
    commands = re.findall(r"^\$ wmtk (.*)$", use, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        # What a person waits minutes for; that training gets somewhere is for docs/results.md.
        done = run_wmtk(*shlex.split(command.replace("--updates 2000", "--updates 20")))
        assert done.exit_code == 0, (command, done.stderr)
    assert {"catch-sheet.png", "catch-episode-3.mp4"} <= {p.name for p in tmp_path.iterdir()}
    (example,) = re.findall(r"```python\n(.*?)```", use, re.DOTALL)
    shown = subprocess.run(
        [sys.executable, "-c", example], check=True, capture_output=True, text=True
    ).stdout
    assert "episodes=64, steps=5056" in shown
    assert "(80, 64, 64, 1)" in shown
    assert "(16, 50, 64, 64, 1)" in shown


def test_the_pages_that_it_links_to_are_there() -> None:
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (root / target).exists(), target
