"""`import wmtk`: what it offers, without loading it; and how objects show themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wmtk


def test_dir_shows_the_api_without_heavy_imports() -> None:
    code = (
        "import sys, wmtk\n"
        "names = dir(wmtk)\n"
        "wanted = {'Dataset', 'make_env', 'collect', 'train_model', 'train_policy', 'online'}\n"
        "assert wanted | {'evaluate', 'load', '__version__'} <= set(names), names\n"
        "heavy = {'torch', 'zarr', 'numpy', 'gymnasium', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "wmtk.datasets.Dataset\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tab_completes_the_api() -> None:
    """As the prompt of Python does it."""
    import rlcompleter

    completer, found = rlcompleter.Completer({"wmtk": wmtk}), []
    while match := completer.complete("wmtk.train", len(found)):
        found.append(match.rstrip("("))
    assert found == ["wmtk.train_model", "wmtk.train_policy", "wmtk.training_config"]


@pytest.mark.parametrize(("package", "name"), [("viz", "evaluation"), ("models", "losses")])
def test_packages_show_their_modules_and_import_them_at_use(package: str, name: str) -> None:
    pytest.importorskip("torch")
    code = (
        "import sys, wmtk\n"
        f"package = wmtk.{package}\n"
        f"assert {name!r} in dir(package), dir(package)\n"
        "assert not any(each.startswith('_') for each in dir(package))\n"
        "assert 'torch' not in sys.modules\n"
        f"assert package.{name}.__name__ == 'wmtk.{package}.{name}'\n"
        "assert not hasattr(package, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", wmtk.__all__)
def test_every_name_is_there(name: str) -> None:
    pytest.importorskip("torch")
    assert getattr(wmtk, name) is getattr(wmtk, name)


def test_types_are_known_of_every_name() -> None:
    tree = ast.parse(Path(wmtk.__file__).read_text())
    typed = {
        (node.module, name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("wmtk.")
        for name in node.names
    }
    assert typed == {(home, name) for name, home in wmtk._HOME.items()}


@pytest.mark.slow
def test_type_checkers_know_the_api(tmp_path: Path) -> None:
    mypy = pytest.importorskip("mypy.api")
    file = tmp_path / "user.py"
    file.write_text(
        "import wmtk\n"
        "loaded = wmtk.load('runs/policy')\n"
        "reveal_type(loaded)\n"
        "if isinstance(loaded, wmtk.LoadedAgent):\n"
        "    reveal_type(loaded.actor_critic)\n"
        "reveal_type(wmtk.collect('wmtk/Catch-v0', 'catch.zarr', steps=1))\n"
        "reveal_type(wmtk.train_model('catch.zarr', 'runs/model'))\n"
        "reveal_type(wmtk.evaluate('runs/policy').returns)\n"
        "wmtk.nothing\n"
    )
    config = Path(__file__).parents[1] / "pyproject.toml"
    output, _, _ = mypy.run([str(file), "--config-file", str(config), "--cache-dir", str(tmp_path)])
    types = [line.split('"')[1] for line in output.splitlines() if "Revealed type" in line]
    assert types == [
        "wmtk.agent.load.LoadedModel",
        "wmtk.models.actor_critic.ActorCritic",
        "wmtk.collecting.collector.CollectReport",
        "wmtk.runs.run_directory.Run",
        "tuple[float, ...]",
    ], output
    assert 'Module has no attribute "nothing"' in output


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = wmtk.nothing
    assert not hasattr(wmtk, "_nothing")
