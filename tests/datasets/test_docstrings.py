"""The examples in the docstrings of `wmtk.datasets` run as they are written."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path

import pytest

import wmtk
import wmtk.datasets

# Results of functions, which they show, and constants.
WITHOUT = {"ALIGNMENT", "ONLINE_CAPACITY", "RepairReport", "Summary", "ValidationReport"}


@pytest.fixture(scope="module")
def catch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of the examples: eight episodes of Catch with random actions."""
    path = tmp_path_factory.mktemp("examples") / "catch.zarr"
    wmtk.collect("wmtk/Catch-v0", path, episodes=8, seed=0)
    return path


@pytest.mark.parametrize("name", sorted(set(wmtk.datasets.__all__) - WITHOUT))
def test_an_example_runs(catch, tmp_path, monkeypatch, name) -> None:
    documented = getattr(wmtk.datasets, name)
    test = doctest.DocTestParser().get_doctest(documented.__doc__ or "", {}, name, None, None)
    assert test.examples, f"{name} has no example"
    shutil.copytree(catch, tmp_path / "catch.zarr")
    monkeypatch.chdir(tmp_path)
    output: list[str] = []
    result = doctest.DocTestRunner().run(test, out=output.append)
    assert result.failed == 0, "".join(output)
