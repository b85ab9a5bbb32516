"""docs/scores.md: its commands print what it shows, its code computes what it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "scores.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


COMMANDS = [
    part.splitlines()
    for block in blocks("console")
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An empty folder with the file that the page shows."""
    made = tmp_path_factory.mktemp("reader")
    (table,) = blocks("csv")
    (made / "runs.csv").write_text(table)
    return made


@pytest.mark.parametrize("shown", COMMANDS, ids=[command[0] for command in COMMANDS])
def test_the_commands_print_what_is_shown(folder, shown):
    command, *expected = shown
    name, *args = shlex.split(command)
    assert name == "wmtk"
    done = subprocess.run(
        [sys.executable, "-m", "wmtk", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "100"},
    )
    printed = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
    if "…" in expected:
        at = expected.index("…")
        after = len(expected) - at - 1
        printed = [*printed[:at], "…", *printed[len(printed) - after :]]
    # The size of a picture depends on the version of the library that packs it.
    assert [_without_size(line) for line in printed] == [_without_size(line) for line in expected]
    assert (done.returncode != 0) == any(line.startswith("error: ") for line in expected)


def _without_size(line: str) -> str:
    return re.sub(r"[\d.]+ kB", "… kB", line)


def test_the_picture_is_what_the_command_draws(tmp_path, run_wmtk):
    from PIL import Image

    shown = DOCS / "images" / "scores-dreamerv2.png"
    assert shown.stat().st_size < 200_000
    run_wmtk("scores", "--chart", tmp_path / "d.png", "--agent", "DreamerV2")
    with Image.open(tmp_path / "d.png") as drawn, Image.open(shown) as kept:
        assert drawn.size == kept.size
        different = (np.asarray(drawn) != np.asarray(kept)).any(-1)
    assert different.mean() < 0.02  # letters may be drawn a little differently elsewhere


def test_the_code_computes_what_its_comments_say():
    (code,) = blocks("python")
    computed = {}
    names: dict[str, object] = {}
    for statement in code.splitlines():
        expression, hash_sign, comment = statement.partition("  # ")
        if hash_sign and "=" not in expression:
            computed[comment] = eval(expression, names)
        else:
            exec(statement, names)
    shape, clipped, interval, summary = computed.items()
    assert shape[1].shape == (3, 3)
    assert f"{clipped[1]:.2f}" == clipped[0]
    assert f"Interval(low={interval[1].low:.2f}, high={interval[1].high:.2f})" == interval[0]
    assert ", ".join(f"{number:g}" for number in summary[1]) == summary[0]
