"""Ctrl-C and SIGTERM for commands that finish what they are at before they end."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from wmtk.cli.common import console


class StopOnSignal:
    """Turns the first signal into a wish, `asked`; the second one ends the command at once.

    A signal that the parent process has set to be ignored stays ignored: a shell does so with
    SIGINT for the background jobs of a script, which the Ctrl-C of others must not end.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C, and a job scheduler's

    def __init__(self, saying: str) -> None:
        self.asked = False
        self._saying = saying
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopOnSignal:
        heard = [n for n in self.SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._handle) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        console.err.print(self._saying)
