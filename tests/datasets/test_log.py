"""The commit log: races, snapshots, pruning, gaps."""

from pathlib import Path

import pytest

from wmtk.datasets.storage.commit_log import SNAPSHOT_EVERY, CommitLog
from wmtk.datasets.storage.dataset_state import Commit, DatasetState
from wmtk.datasets.storage.part import PartEntry
from wmtk.errors import CorruptDatasetError


def entry(number: int, episodes: int = 1) -> PartEntry:
    ids = tuple(f"{number:08x}{i:08x}" for i in range(episodes))
    return PartEntry(
        part=f"p{number:08d}-{number:08x}",
        first=-1,
        bytes=10,
        digest="d",
        ids=ids,
        lengths=(5,) * episodes,
        returns=(0.0,) * episodes,
        ends=(1,) * episodes,
    )


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    (tmp_path / "log").mkdir()
    (tmp_path / "parts").mkdir()
    return CommitLog(tmp_path)


def append(log: CommitLog, state: DatasetState, number: int, episodes: int = 1) -> DatasetState:
    return log.commit(state, lambda _: Commit("append", (entry(number, episodes),)))


def test_episodes_are_numbered_over_the_whole_history(log: CommitLog) -> None:
    state = append(log, DatasetState(0), 1, episodes=2)
    state = append(log, state, 2, episodes=3)
    state = log.commit(state, lambda _: Commit("evict", remove=(entry(1).part,)))
    state = append(log, state, 3)
    assert [e.first for e in state.parts] == [2, 5]
    assert log.read() == state


def test_a_lost_race_is_tried_again_on_the_newest_state(log: CommitLog) -> None:
    seen = []

    def plan(state: DatasetState) -> Commit:
        seen.append(state.version)
        if len(seen) == 1:  # another writer is quicker
            append(CommitLog(log.root), state, 7)
        return Commit("append", (entry(8),))

    state = log.commit(DatasetState(0), plan)
    assert seen == [0, 1]
    assert [e.part for e in state.parts] == [entry(7).part, entry(8).part]


def test_snapshots_bound_the_number_of_records(log: CommitLog) -> None:
    state = DatasetState(0)
    for number in range(5 * SNAPSHOT_EVERY):
        state = log.snapshot_if_due(append(log, state, number))
    assert log.read() == state
    assert len(list(log.folder.iterdir())) <= 2 * SNAPSHOT_EVERY + 2


def test_a_reader_that_fell_behind_catches_up_by_the_snapshot(log: CommitLog) -> None:
    old = append(log, DatasetState(0), 0)
    state = old
    for number in range(1, 4 * SNAPSHOT_EVERY):
        state = log.snapshot_if_due(append(log, state, number))
    assert not log.record_path(2).exists()
    assert log.read(since=old).parts == state.parts


def test_a_missing_record_is_an_error_that_names_it(log: CommitLog) -> None:
    state = DatasetState(0)
    for number in range(4):
        state = append(log, state, number)
    log.record_path(2).unlink()
    with pytest.raises(CorruptDatasetError, match=r"00000002\.json is missing"):
        log.read()


def test_an_old_version_can_be_read(log: CommitLog) -> None:
    states = [DatasetState(0)]
    for number in range(4):
        states.append(append(log, states[-1], number))
    assert log.read(upto=2) == states[2]
