"""Shared by all tests: a settled environment, and the `wmtk` command in this process."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from wmtk.cli.main import app


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller's shell has set must not change what commands print."""
    monkeypatch.delenv("WMTK_DEBUG", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def run_wmtk():
    """Run `wmtk ARGS` in this process; the result has exit_code, stdout and stderr."""

    def run(*args: object, stdin: str | None = None):
        return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, prog_name="wmtk")

    return run
