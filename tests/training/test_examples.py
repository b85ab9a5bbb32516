"""The examples in the docstrings of the training functions run in the order of the stages."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wmtk

STAGES: list[Callable[..., Any]] = [wmtk.train_model, wmtk.train_policy, wmtk.online]


def test_the_examples_of_the_stages_run(catch: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "catch.zarr").symlink_to(catch, target_is_directory=True)
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    for stage in STAGES:
        (examples,) = finder.find(stage, globs={})
        assert examples.examples, stage
        output: list[str] = []
        assert runner.run(examples, out=output.append).failed == 0, "".join(output)
