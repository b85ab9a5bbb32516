"""How a run plays, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wmtk.datasets import Source
from wmtk.envs import ResolvedTask


@dataclass(frozen=True)
class EnvSetup:
    """A task and the circumstances in which it is played."""

    task: ResolvedTask
    seed: int
    workers: int | None = None  # processes for the environments, as in `wmtk.collecting`
    timeout: float = 60.0  # seconds without a step after which a process is replaced
    stop: Callable[[], bool] = lambda: False
    on_round: Callable[[int], None] = lambda _: None  # told the steps so far
    on_message: Callable[[str], None] = lambda _: None
    longest: int | None = None  # steps of an episode, where the task has no time limit

    def as_long_as(self, sources: Sequence[Source]) -> EnvSetup:
        """The same with episodes of the data's greatest length, where the task has no time limit.

        Otherwise they would not end, and their returns would not compare with those of the data.
        """
        return replace(self, longest=longest_episode(sources))


def longest_episode(sources: Sequence[Source]) -> int | None:
    """The steps of the longest episode; None without one."""
    lengths = [int(source.table().length.max(initial=0)) for source in sources]
    return max(lengths, default=0) or None
