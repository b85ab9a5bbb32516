"""Stores the episodes that a person plays."""

from __future__ import annotations

import threading
from typing import Any

from wmtk.datasets import Episode
from wmtk.viz.live.catalog import RecordingTarget

MOST_UNSAVED = 8  # episodes that wait for disk space


class Recorder:
    """Appends episodes to the dataset; those that could not be written are retried."""

    def __init__(self, target: RecordingTarget) -> None:
        self.target = target
        self.saved = 0
        self.steps = 0
        self._waiting: list[Episode] = []
        self._lock = threading.Lock()  # two pages may record at once

    @property
    def name(self) -> str:
        return self.target.dataset.path.name

    def save(self, episode: Episode) -> int:
        """Commit an episode and those that could not be written before; their number."""
        with self._lock:
            self._waiting = [*self._waiting, episode][-MOST_UNSAVED:]
            self.target.dataset.append(self._waiting)
            done, self._waiting = self._waiting, []
            self.saved += len(done)
            self.steps += sum(saved.length for saved in done)
            return len(done)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "task": self.target.task.task,
            "saved": self.saved,
            "steps": self.steps,
            "waiting": len(self._waiting),
        }
