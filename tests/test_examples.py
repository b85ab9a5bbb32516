"""The examples in the docstrings of the public API run as they are written."""

from __future__ import annotations

import doctest
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wmtk

pytest.importorskip("torch")

FUNCTIONS = ("make_env", "collect", "train_model", "train_policy", "online", "evaluate", "load")
CLASSES = ("Dataset", "LoadedModel", "LoadedAgent")
# What an example makes itself.
MAKES = {
    "collect": "catch.zarr",
    "train_model": "runs/model",
    "train_policy": "runs/policy",
    "online": "runs/online",
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks are fastest with one thread, above all on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples of the four stages leave."""
    folder = tmp_path_factory.mktemp("examples")
    data, model, policy = folder / "catch.zarr", folder / "runs/model", folder / "runs/policy"
    wmtk.collect("wmtk/Catch-v0", data, episodes=8, seed=0)
    wmtk.train_model(data, model, preset="tiny", updates=1, device="cpu")
    wmtk.train_policy(model, policy, updates=1, episodes=0, device="cpu")
    return folder


def run_example(name: str, documented: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = doctest.DocTestParser().get_doctest(documented.__doc__ or "", {}, name, None, None)
    assert test.examples, f"{name} has no example"
    monkeypatch.chdir(folder)
    output: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append)
    assert result.attempted == len(test.examples)
    assert result.failed == 0, "".join(output)


@pytest.mark.parametrize("name", [*FUNCTIONS, *CLASSES])
def test_the_example_of_a_public_name_runs(name, finished, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(finished, folder)
    if name in MAKES:
        shutil.rmtree(folder / MAKES[name], ignore_errors=True)
    run_example(name, getattr(wmtk, name), folder, monkeypatch)
    if name in MAKES:
        assert (folder / MAKES[name]).is_dir()


def test_the_examples_of_modules_run(finished, monkeypatch) -> None:
    from wmtk.agent.actor_policy import ActorPolicy
    from wmtk.runs.conversion import convert_run

    run_example("ActorPolicy", ActorPolicy, finished, monkeypatch)
    run_example("convert_run", convert_run, finished, monkeypatch)


def test_an_example_that_fails_is_noticed(tmp_path, monkeypatch) -> None:
    def wrong() -> None:
        """
        >>> 1 + 1
        3
        """

    def without() -> None:
        """No example."""

    with pytest.raises(AssertionError, match="Got:"):
        run_example("wrong", wrong, tmp_path, monkeypatch)
    with pytest.raises(AssertionError, match="no example"):
        run_example("without", without, tmp_path, monkeypatch)
