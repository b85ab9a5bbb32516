"""`wmtk viz serve` and `wmtk collect --human`, from the command line."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from wmtk.cli.viz import serve_command
from wmtk.viz.live import server as servers


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Servers that say that they are ready, and end."""
    made: list[Any] = []

    def run(self: Any, on_ready: Any = lambda _: None) -> None:
        on_ready(self.address)
        made.append(self)
        self.engine.stop()
        self.socket.close()

    monkeypatch.setattr(servers.Server, "run", run)
    return made


def test_the_address_and_the_tunnel_are_printed(run_wmtk, catch: Path, opened) -> None:
    done = run_wmtk("viz", "serve", catch, "--port", 0, "--no-open")
    assert done.exit_code == 0, done.stderr
    port, token = opened[0].address.port, opened[0].address.token
    assert port > 0
    assert f"http://127.0.0.1:{port}/{token}/" in done.stderr
    assert f"ssh -N -L {port}:127.0.0.1:{port} " in done.stderr
    assert "warning" not in done.stderr


def test_past_this_machine_there_is_a_warning(run_wmtk, catch: Path, opened) -> None:
    done = run_wmtk("viz", "serve", catch, "--port", 0, "--no-open", "--host", "0.0.0.0")
    assert "warning: 0.0.0.0 can be reached from other machines" in done.stderr


def test_a_browser_is_opened_unless_that_is_not_wanted(
    run_wmtk, catch: Path, opened, monkeypatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(serve_command.typer, "launch", seen.append)
    run_wmtk("viz", "serve", catch, "--port", 0, "--no-open")
    assert not seen
    run_wmtk("viz", "serve", catch, "--port", 0)
    assert seen == [opened[1].address.url]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "No run or dataset given"),
        (["missing.zarr"], "missing.zarr"),
        (["CATCH", "--host", "no.such.host.invalid"], "is not an address"),
        (["CATCH", "--host", "203.0.113.7"], "Cannot listen"),
        (["CATCH", "--record", "new.zarr"], "task of the new dataset"),
    ],
)
def test_what_cannot_work_is_refused(run_wmtk, catch: Path, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    done = run_wmtk("viz", "serve", *[catch if arg == "CATCH" else arg for arg in args])
    assert done.exit_code in {1, 2}
    assert words in done.stderr
    assert not (tmp_path / "new.zarr").exists()


def test_human_opens_the_page_that_records(run_wmtk, tmp_path: Path, opened) -> None:
    out = tmp_path / "mine.zarr"
    done = run_wmtk("collect", "wmtk/Catch-v0", "--out", out, "--human", "--port", 0, "--no-open")
    assert done.exit_code == 0, done.stderr
    assert "0 new episodes" in done.stderr
    assert not out.exists()  # without an episode nothing is in the way of the next attempt
    run_wmtk("collect", "wmtk/Catch-v0", "--out", out, "--steps", 9)
    again = run_wmtk("collect", "wmtk/Catch-v0", "--out", out, "--human", "--no-open")
    assert "--append" in again.stderr
    assert run_wmtk("collect", "x", "--out", out, "--human", "--steps", 9).exit_code == 2


@pytest.mark.slow
def test_it_serves_until_ctrl_c(catch: Path) -> None:
    command = [sys.executable, "-m", "wmtk", "viz", "serve", catch, "--port", "0", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        with urllib.request.urlopen(found[0], timeout=60) as answer:
            assert b"wmtk live" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()


def test_log_handlers_of_other_libraries_stay_open(run_wmtk, catch: Path, opened) -> None:
    class Handler(logging.StreamHandler):
        closed = False

        def close(self) -> None:
            self.closed = True
            super().close()

    handler = Handler()
    done = run_wmtk("viz", "serve", catch, "--port", 0, "--no-open")
    assert done.exit_code == 0, done.stderr
    assert not handler.closed
