"""Tests that send Ctrl-C work where the parent process ignores it, and wmtk keeps ignoring it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from wmtk.cli.common.process import StopOnSignal

IGNORING = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]


def test_a_child_of_a_test_can_be_interrupted() -> None:
    lines = "import signal; signal.raise_signal(signal.SIGINT)"
    child = subprocess.run([sys.executable, "-c", lines], stderr=subprocess.PIPE, text=True)
    assert "KeyboardInterrupt" in child.stderr


@pytest.mark.slow
def test_the_same_where_it_is_ignored() -> None:
    test = f"{__file__}::{test_a_child_of_a_test_can_be_interrupted.__name__}"
    pytest_ = [str(Path(sys.executable).with_name("pytest")), "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*IGNORING, *pytest_, test], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("number", StopOnSignal.SIGNALS)
def test_a_signal_that_is_ignored_stays_ignored(number, monkeypatch) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with StopOnSignal("Stopping.") as stopping:
            signal.raise_signal(number)
            assert not stopping.requested
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
