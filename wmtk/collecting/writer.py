"""Committing episodes while the next ones are played."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

from wmtk.datasets import Dataset, Episode

FLUSH_STEPS = 4096  # steps that are committed together
FLUSH_SECONDS = 10.0  # at the latest, so that a crash costs little


class BackgroundWriter:
    """Appends episodes in a thread, one commit at a time: memory stays bounded."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="wmtk-writer")
        self._pending: Future[int] | None = None
        self._episodes: list[Episode] = []
        self._flushed = time.monotonic()

    def add(self, slot: int, episode: Episode) -> None:
        self._episodes.append(episode)
        if sum(kept.length for kept in self._episodes) >= FLUSH_STEPS:
            self.flush()

    def flush_if_due(self) -> None:
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Commit what has been added; waits for the commit before, whose error it raises."""
        self._wait()
        if self._episodes:
            self._pending = self._pool.submit(self.dataset.append, self._episodes)
            self._episodes = []
        self._flushed = time.monotonic()

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Commit the rest."""
        try:
            self.flush()
            self._wait()
        finally:
            self._pool.shutdown()
