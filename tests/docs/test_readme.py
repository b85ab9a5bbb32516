"""README.md: the commands and the code under "Use" work."""

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
        # Few updates keep the test short; docs/results.md is about what training achieves.
        done = run_wmtk(*shlex.split(command.replace("--updates 2000", "--updates 20")))
        assert done.exit_code == 0, (command, done.stderr)
    assert {"catch-sheet.png", "catch-episode-3.mp4"} <= {p.name for p in tmp_path.iterdir()}
    stages, example = re.findall(r"```python\n(.*?)```", use, re.DOTALL)
    printed = run_python(example, tmp_path)
    assert "episodes=64, steps=5056" in printed
    assert "(80, 64, 64, 1)" in printed
    assert "(16, 50, 64, 64, 1)" in printed
    folder = tmp_path / "python"  # the stages write the same files as the commands
    folder.mkdir()
    printed = run_python(stages.replace("updates=2000", "updates=20"), folder)
    assert -5 <= float(printed) <= 5
    assert (folder / "openloop.png").exists()


def run_python(code: str, folder: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def test_the_pages_that_it_links_to_are_there() -> None:
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (root / target).exists(), target
