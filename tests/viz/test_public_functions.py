"""The functions of `wmtk.viz`: their examples, their types, and the commands that call them."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import wmtk
import wmtk.viz
from wmtk.cli.data.view_commands import play, sheet
from wmtk.cli.viz.viz_app import app
from wmtk.datasets import Dataset, Source
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

from .noise import SETTINGS

FUNCTIONS = sorted(wmtk.viz.__all__)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names in the examples: a model of Catch after two updates, its data and a policy."""
    folder = tmp_path_factory.mktemp("public")
    data, run, policy = folder / "catch.zarr", folder / "run", folder / "policy"
    wmtk.collect("wmtk/Catch-v0", data, episodes=20, seed=0)
    config = training_config("tiny", overrides={**SETTINGS, "logging.keep_checkpoints": 2})
    train_model([Source(Dataset.open(data))], run, config, updates=2, val_fraction=0.5)
    train_policy(run, policy, updates=2, episodes=0)
    return {"wmtk": wmtk, "run": run, "data": data, "policy": policy}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_each_function_works(
    name: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = doctest.DocTestFinder(recurse=False).find(
        getattr(wmtk.viz, name), name, globs=dict(names)
    )
    assert example.examples, f"{name} has no example"
    printed: list[str] = []
    result = doctest.DocTestRunner().run(example, out=printed.append)
    assert not result.failed, "".join(printed)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_has_a_type_and_a_description(name: str) -> None:
    function = getattr(wmtk.viz, name)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    doc = inspect.getdoc(function)
    assert doc is not None
    arguments = doc.partition("Args:")[2].partition("Example:")[0]
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        assert f"    {parameter.name}: " in arguments, parameter.name


def test_a_loaded_model_and_an_open_dataset_are_accepted(names: dict[str, Any]) -> None:
    options: dict[str, Any] = {"horizon": 4, "windows": 2, "samples": 1, "factors": False}
    by_path = wmtk.viz.evaluate(names["run"], names["data"], **options)
    model, data = wmtk.load(names["run"]), Dataset.open(names["data"])
    loaded = wmtk.viz.evaluate(model, data, **options)
    assert repr(loaded) == repr(by_path)
    assert loaded.verdict.headline in repr(loaded)
    assert loaded.metrics.kl.value == by_path.metrics.kl.value


def test_files_are_written_to_the_run_directory_by_default(names: dict[str, Any]) -> None:
    result = wmtk.viz.code_usage(names["run"], names["data"], windows=1, rows=4)
    assert result.path == names["run"] / "images" / "codes-00000002.png"
    assert result._repr_png_() == result.path.read_bytes()


def test_charts_are_figures(names: dict[str, Any]) -> None:
    figure = pytest.importorskip("matplotlib.figure")
    options: dict[str, Any] = {"horizon": 4, "windows": 2, "samples": 1}
    result = wmtk.viz.compare([names["run"], names["run"]], names["data"], **options)
    assert isinstance(result.figure(), figure.Figure)
    assert result.files == []


COMMANDS = [command.callback for command in app.registered_commands] + [sheet, play]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.__name__)
def test_each_command_calls_one_function(command: Any) -> None:
    source = inspect.getsource(command)
    (imported,) = re.findall(r"from wmtk\.viz import (.+)", source)
    assert imported in wmtk.viz.__all__
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == imported
    ]
    assert len(calls) == 1


def test_names_are_listed_without_imports() -> None:
    code = (
        "import sys, wmtk.viz\n"
        f"assert set({FUNCTIONS}) <= set(dir(wmtk.viz))\n"
        "heavy = {'torch', 'numpy', 'matplotlib', 'zarr'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
