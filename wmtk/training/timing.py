"""Where the time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timer:
    """Seconds spent in the named parts of a process, which do not overlap."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()
        self._under_way: tuple[str, float] | None = None  # a part, and when it began

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        self._under_way = name, began
        try:
            yield
        finally:
            self._under_way = None
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def shares(self) -> dict[str, float]:
        """Of all time so far, what each part took; the rest is `other`."""
        seconds = dict(self.seconds)
        if self._under_way is not None:  # it may last long, as random play does
            name, began = self._under_way
            seconds[name] = seconds.get(name, 0.0) + time.monotonic() - began
        whole = max(self.elapsed, 1e-9)
        shares = {name: taken / whole for name, taken in seconds.items()}
        return shares | {"other": max(1 - sum(shares.values()), 0.0)}
