"""Join small parts into large ones: fewer files, better compression, the same episodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage.commit_log import CommitLog
from wmtk.datasets.storage.dataset_state import Commit, DatasetState
from wmtk.datasets.storage.part import PartEntry, discard_part, new_part_id, write_part
from wmtk.datasets.storage.shard import COMPACT_LEVEL
from wmtk.errors import DatasetError

TARGET_STEPS = 8192  # of a compacted part
TARGET_BYTES = 256 * 2**20  # decoded


def target_steps(capacity: int | None, row_bytes: int) -> int:
    """Steps of a compacted part.

    Parts are evicted as a whole and decoded as a whole when they are joined: they are smaller for
    small capacities and for large rows.
    """
    steps = min(TARGET_STEPS, TARGET_BYTES // row_bytes)
    return max(1, steps if capacity is None else min(steps, capacity // 16))


def split(episodes: Sequence[Episode], target: int) -> Iterator[list[Episode]]:
    """Split episodes, in order, into groups of `target` steps or a little more."""
    group: list[Episode] = []
    for episode in episodes:
        group.append(episode)
        if sum(one.length for one in group) >= target:
            yield group
            group = []
    if group:
        yield group


def runs(state: DatasetState, target: int, *, everything: bool) -> Iterator[tuple[PartEntry, ...]]:
    """Neighboring small parts that together make a part of about `target` steps.

    With `everything` the last run is joined too, even if it is short of the target.
    """
    run: list[PartEntry] = []
    for entry in state.parts:
        small = entry.steps * 2 <= target
        adjacent = not run or run[-1].stop == entry.first
        if not (small and adjacent):
            if everything and len(run) > 1:
                yield tuple(run)
            run = []
        if not small:
            continue
        run.append(entry)
        if sum(part.steps for part in run) >= target:
            if len(run) > 1:
                yield tuple(run)
            run = []
    if everything and len(run) > 1:
        yield tuple(run)


def join(
    root: Path,
    schema: Schema,
    log: CommitLog,
    state: DatasetState,
    run: tuple[PartEntry, ...],
    episodes: Sequence[Episode],
    *,
    evicted: int = 0,
) -> DatasetState:
    """Replace neighboring parts by one part with the same episodes, which the caller has read.

    The first `evicted` episodes are removed from the dataset. Nothing is committed if another
    process has evicted or compacted one of the parts.
    """
    joined = write_part(root, new_part_id(state.version), schema, episodes, COMPACT_LEVEL)
    joined = joined.numbered(run[0].first + evicted)
    assert joined.ids == tuple(name for entry in run for name in entry.ids)[evicted:], (joined, run)
    sources = tuple(entry.part for entry in run)

    def plan(newest: DatasetState) -> Commit | None:
        if not newest.live.issuperset(sources):
            return None
        return Commit("cut" if evicted else "compact", (joined,), sources)

    try:
        after = log.commit(state, plan)
    except BaseException:
        discard_uncommitted(root, log, joined.part)
        raise
    if joined.part not in after.live:
        # Removed in memory only, so that the caller's housekeeping deletes the files.
        return replace(after, removed=after.removed | {joined.part})
    return after


def discard_uncommitted(root: Path, log: CommitLog, part: str) -> None:
    """Delete a part whose commit raised an error, unless the log contains the commit."""
    with contextlib.suppress(DatasetError, OSError):
        state = log.read()
        if part not in state.live | state.removed:
            discard_part(root, part)
