"""`wmtk train-model`: a run from a dataset, and what a user can get wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SMALL = ["--set", "model.depth=2", "--set", "data.batch_size=2", "--set", "data.length=4"]


@pytest.mark.slow
def test_the_command_trains_and_resumes(run_wmtk, catch, tmp_path) -> None:
    options = ["train-model", catch, "--out", tmp_path / "run", *SMALL, "--json"]
    first = run_wmtk(*options, "--steps", 2)
    assert first.exit_code == 0, first.stderr
    assert json.loads(first.stdout)["steps"] == 2
    again = run_wmtk(*options, "--steps", 3)
    assert again.exit_code == 1
    assert "--resume" in again.stderr
    resumed = run_wmtk(*options, "--steps", 3, "--resume")
    assert resumed.exit_code == 0, resumed.stderr
    assert json.loads(resumed.stdout)["best"] in {2, 3}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--preset", "tinny"], "There are: atari"),
        (["--ablate", "no-brain"], "no-layer-norm"),
        (["--set", "model.kl_scal=1"], "kl_scale"),
        (["--set", "model.depth=many"], "integer"),
        (["--device", "quantum"], "wmtk doctor"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(
    run_wmtk, catch, tmp_path, options, expected
) -> None:
    done = run_wmtk("train-model", catch, "--out", tmp_path / "run", *options)
    assert done.exit_code == 2
    assert expected in done.stderr
    assert not (tmp_path / "run").exists()


def test_without_torch_it_says_what_to_install(catch, tmp_path) -> None:
    hide = "import sys; sys.modules['torch'] = None; from wmtk.cli.main import main; main()"
    command = [sys.executable, "-c", hide, "train-model", str(catch), "--out", str(tmp_path / "r")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "wmtk[train]" in done.stderr
