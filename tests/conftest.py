"""Shared by all tests: a settled environment, and the `wmtk` command in this process."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from wmtk.cli.main import app

# pytest-xdist sets it in its workers, and consoles that are made at import keep it.
os.environ.pop("COLUMNS", None)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller's shell has set must not change what commands print."""
    monkeypatch.delenv("WMTK_DEBUG", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(autouse=True)
def audible_ctrl_c() -> Iterator[None]:
    """SIGINT is not ignored, as it is in background jobs: child processes inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run_wmtk():
    """Run `wmtk ARGS` in this process; the result has exit_code, stdout and stderr."""

    def run(*args: object, stdin: str | None = None):
        return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, prog_name="wmtk")

    return run


@pytest.fixture(scope="session")
def mutations() -> ModuleType:
    """tests/mutations.py: documents and bytes with one thing changed."""
    path = Path(__file__).with_name("mutations.py")
    spec = importlib.util.spec_from_file_location("mutations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
