"""The replay of an online run: an ordinary dataset, and how many steps ever came into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wmtk.collecting import dataset_for
from wmtk.datasets import Dataset, Episode
from wmtk.datasets.storage import atomic
from wmtk.envs import ResolvedTask
from wmtk.runs.records import Ledger

DATASET, LEDGER = "replay.zarr", "replay.json"


class Replay:
    """Takes whole episodes, each of which survives any crash once `add` has returned.

    The dataset forgets its oldest episodes, so that a ledger beside it counts all that were ever
    committed. It is written after each commit; what came after it was written is still there.
    """

    def __init__(self, folder: Path, task: ResolvedTask, capacity: int) -> None:
        self.dataset: Dataset = dataset_for(task, folder / DATASET, capacity=capacity, append=True)
        self.capacity = capacity
        self._ledger = folder / LEDGER
        self.label: Callable[[], str] = lambda: ""  # who plays, for the record of an episode
        # Of the episodes that were there, and of those that came.
        self.returns: list[float] = self.dataset.episodes.total_reward.tolist()
        self.steps = self._count()
        self._write()

    def _count(self) -> int:
        """The steps of all episodes that were ever committed."""
        counted = _read(self._ledger)
        table = self.dataset.episodes
        since = table.length[table.episode >= counted.episodes]
        return counted.steps + int(since.sum())

    def _write(self) -> None:
        document = {"episodes": self.dataset.next_episode, "steps": self.steps}
        with atomic.translate_os_errors(self._ledger.parent):
            atomic.replace_file(self._ledger, atomic.json_bytes(atomic.with_checksum(document)))

    @property
    def episodes(self) -> int:
        """How many were ever committed."""
        return self.dataset.next_episode

    def recount(self) -> None:
        """Take account of what others have put into the dataset."""
        self.steps = self._count()
        self.returns = self.dataset.episodes.total_reward.tolist()
        self._write()

    # --- wmtk.collecting.driver.EpisodeSink ---

    def add(self, env_index: int, episode: Episode) -> None:
        provenance = replace(episode.provenance, policy=self.label() or episode.provenance.policy)
        self.dataset.append(replace(episode, provenance=provenance))
        self.steps += episode.length
        self.returns.append(episode.total_reward)
        self._write()

    def flush_if_due(self) -> None:
        pass

    def close(self) -> None:
        pass


def open_replay(folder: Path) -> Dataset:
    """The replay of an online run, for reading."""
    return Dataset.open(folder / DATASET)


def has_replay(folder: Path) -> bool:
    """Whether a run directory has episodes of its own."""
    return (folder / DATASET).exists() and len(open_replay(folder)) > 0


def replay_steps(folder: Path) -> int:
    """How many steps a run has played, in whole episodes."""
    return _read(folder / LEDGER).steps


def _read(path: Path) -> Ledger:
    """What was counted so far."""
    return Ledger.open(path)[0] if os.path.lexists(path) else Ledger(episodes=0, steps=0)
