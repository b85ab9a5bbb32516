"""Measurement of the time that parts of a process take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timer:
    """Seconds spent in named parts of a process, which do not overlap."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.monotonic()
        self._active: tuple[str, float] | None = None  # name and start of the current part

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the duration of the block to the part `name`."""
        start = time.monotonic()
        self._active = name, start
        try:
            yield
        finally:
            self._active = None
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    @property
    def elapsed(self) -> float:
        """Seconds since the timer was created."""
        return time.monotonic() - self._start

    def shares(self) -> dict[str, float]:
        """The share of each part in the elapsed time; the rest is `other`."""
        seconds = dict(self.seconds)
        if self._active is not None:  # includes the current part, which may take minutes
            name, start = self._active
            seconds[name] = seconds.get(name, 0.0) + time.monotonic() - start
        total = max(self.elapsed, 1e-9)
        shares = {name: part / total for name, part in seconds.items()}
        return shares | {"other": max(1 - sum(shares.values()), 0.0)}
