"""The process of a command: its stdout, reserved for results, and its signals."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any


def divert_stdout_descriptor() -> None:
    """Give sys.stdout a descriptor of its own, and make file descriptor 1 a copy of stderr.

    From then on C libraries and child processes write to stderr.
    """
    try:
        own = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of the two is closed
        return
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    stream = open(own, "w", encoding=encoding, errors=errors)  # noqa: PTH123, SIM115 — never closed
    sys.stdout = sys.__stdout__ = stream  # type: ignore[misc]


def reserve_stdout() -> None:
    """Redirect prints of this process, except for results, to stderr until `release_stdout`.

    For commands that run the code of environments and policies in this process.
    """
    from wmtk.cli.common import console

    console.out.file = sys.stdout
    sys.stdout = sys.__stdout__ = sys.stderr  # type: ignore[misc, assignment]


def release_stdout() -> None:
    """Undo `reserve_stdout`."""
    console = sys.modules.get("wmtk.cli.common.console")
    if console is not None and console.out._file is not None:
        sys.stdout = sys.__stdout__ = console.out.file  # type: ignore[misc]
        console.out._file = None  # then it prints to the current sys.stdout


def interrupt(*_: object) -> None:
    """Handler of SIGTERM, which job schedulers send: the same as Ctrl-C."""
    raise KeyboardInterrupt


class StopOnSignal:
    """Sets `requested` on the first Ctrl-C or SIGTERM; the second one interrupts at once.

    A signal that the parent process has set to be ignored stays ignored: a shell does so with
    SIGINT for the background jobs of a script, so that Ctrl-C does not end them.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, message: str) -> None:
        self.requested = False
        self._message = message
        self._previous: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether to stop, in the form that the training functions take."""
        return self.requested

    def __enter__(self) -> StopOnSignal:
        active = [n for n in self.SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        self._previous = {number: signal.signal(number, self._handle) for number in active}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        from wmtk.cli.common import console

        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        console.err.print(self._message)
