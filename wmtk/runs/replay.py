"""The replay of an online run: a dataset, and the number of steps added to it so far."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wmtk.collecting import dataset_for
from wmtk.datasets import Dataset, Episode
from wmtk.datasets.storage import atomic
from wmtk.envs import ResolvedTask
from wmtk.runs.records import ReplayCounts

DATASET, COUNTS = "replay.zarr", "replay.json"


class Replay:
    """The dataset of an online run, with a capacity; an episode is durable once `add` returns.

    The dataset evicts its oldest episodes; replay.json counts all committed ones, including these.
    It is written after each commit; episodes committed after the last write are counted on opening.
    """

    def __init__(self, folder: Path, task: ResolvedTask, capacity: int) -> None:
        self.dataset: Dataset = dataset_for(task, folder / DATASET, capacity=capacity, append=True)
        self.capacity = capacity
        self._counts_file = folder / COUNTS
        self.label: Callable[[], str] = lambda: ""  # name of the policy, for the provenance
        # Returns of the episodes in the dataset at the start, and of all episodes added since.
        self.returns: list[float] = self.dataset.episodes.total_reward.tolist()
        self.steps = self._count()
        self._write()

    def _count(self) -> int:
        """The steps of all committed episodes, including evicted ones."""
        counted = _read(self._counts_file)
        table = self.dataset.episodes
        since = table.length[table.episode >= counted.episodes]
        return counted.steps + int(since.sum())

    def _write(self) -> None:
        document = {"episodes": self.dataset.next_episode, "steps": self.steps}
        with atomic.translate_os_errors(self._counts_file.parent):
            atomic.replace_file(
                self._counts_file, atomic.json_bytes(atomic.with_checksum(document))
            )

    @property
    def episodes(self) -> int:
        """The number of committed episodes, including evicted ones."""
        return self.dataset.next_episode

    def recount(self) -> None:
        """Count episodes that other processes have added to the dataset."""
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
    """Open the replay of an online run for reading."""
    return Dataset.open(folder / DATASET)


def has_replay(folder: Path) -> bool:
    """Whether a run directory has a replay with episodes."""
    return (folder / DATASET).exists() and len(open_replay(folder)) > 0


def replay_steps(folder: Path) -> int:
    """The steps of all finished episodes that a run has collected."""
    return _read(folder / COUNTS).steps


def _read(path: Path) -> ReplayCounts:
    """The counts in replay.json."""
    return (
        ReplayCounts.open(path)[0] if os.path.lexists(path) else ReplayCounts(episodes=0, steps=0)
    )
