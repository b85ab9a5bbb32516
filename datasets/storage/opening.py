"""The state of a dataset when it is opened: the parts of a version, which must all be on disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from wmtk.datasets.storage import atomic, retention
from wmtk.datasets.storage.commit_log import CommitLog
from wmtk.datasets.storage.dataset_state import DatasetState
from wmtk.errors import CorruptDatasetError, DatasetError, EvictedError

MAX_LISTED = 10  # missing parts in an error message


def newest_state(root: Path) -> DatasetState:
    """The newest version; raises CorruptDatasetError if parts of it are missing."""
    log = CommitLog(root)
    state = log.read()
    while True:
        present = set(os.listdir(root / "parts"))
        missing = _missing(state, present)
        later = state.parts_of_lost_versions(present)
        if not missing and not later:
            if orphans := state.orphans(present):
                log.require_unnamed(state, orphans)
            return state
        newest = log.read()
        if newest.version == state.version:
            break
        state = newest  # another process has committed since the log was read
    if missing:
        raise _incomplete(root, state, missing)
    raise CorruptDatasetError(
        f"The log of {root} ends at version {state.version}, but parts/{later[0]} is of a later "
        "one: records are missing.",
        "Copy the dataset again, or run `wmtk data repair` to add the parts that are there.",
        root / "log",
    )


def remove_if_empty(root: Path) -> bool:
    """Delete a dataset without any commit, unless another process has it open for writing."""
    with (
        contextlib.suppress(DatasetError, OSError),
        atomic.FolderLock(root / "tmp", exclusive=True) as granted,
    ):
        if granted and CommitLog(root).read().version == 0:
            (root / "zarr.json").unlink()  # first: a kill leaves a vacant folder
            atomic.remove_tree(root)
            return True
    return False


def past_state(root: Path, version: int | None, tag: str | None) -> DatasetState:
    """An earlier version, by tag or by number; raises EvictedError if parts are deleted."""
    if tag is not None:
        named = retention.read_tag(root, tag)
        state = DatasetState(named.version, named.parts)
    else:
        state = CommitLog(root).read(upto=version)
    missing = _missing(state, set(os.listdir(root / "parts")))
    if not missing:
        return state
    if tag is None and CommitLog(root).read().live.isdisjoint(missing):
        raise EvictedError(
            f"{len(missing)} parts of version {state.version} of {root} were evicted or compacted "
            "since.",
            "Open the newest version. To keep a version, tag it.",
            root,
        )
    raise _incomplete(root, state, missing)


def _missing(state: DatasetState, present: Collection[str]) -> list[str]:
    return [entry.part for entry in state.parts if entry.part not in present]


def _incomplete(root: Path, state: DatasetState, missing: list[str]) -> CorruptDatasetError:
    names = "\n".join(f"  parts/{name}" for name in missing[:MAX_LISTED])
    more = f"\n  and {len(missing) - MAX_LISTED} more" if len(missing) > MAX_LISTED else ""
    return CorruptDatasetError(
        f"{root} is incomplete: {len(missing)} of {len(state.parts)} parts of version "
        f"{state.version} are missing:\n{names}{more}",
        "Copy the dataset again, or run `wmtk data repair` to continue without them.",
        root,
    )
