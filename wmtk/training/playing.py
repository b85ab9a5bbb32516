"""How a run plays, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wmtk.envs import ResolvedTask


@dataclass(frozen=True)
class Playing:
    """A task and the circumstances in which it is played."""

    task: ResolvedTask
    seed: int
    workers: int | None = None  # processes for the environments, as in `wmtk.collect`
    timeout: float = 60.0  # seconds without a step after which a process is replaced
    stop: Callable[[], bool] = lambda: False
    on_round: Callable[[int], None] = lambda _: None  # told the steps so far
    on_message: Callable[[str], None] = lambda _: None
