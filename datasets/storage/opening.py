"""Which parts a dataset has when it is opened, and that they are there; removing empty ones."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from wmtk.datasets.storage import atomic, retention
from wmtk.datasets.storage.commit_log import CommitLog, DatasetState
from wmtk.errors import CorruptDatasetError, DatasetError, EvictedError

SHOWN = 10  # missing parts that are named


def newest_state(root: Path) -> DatasetState:
    """The newest version, all of whose parts are there."""
    log = CommitLog(root)
    state = log.read()
    while True:
        present = set(os.listdir(root / "parts"))
        missing = _missing(state, present)
        unheard = state.parts_of_lost_versions(present)
        if not missing and not unheard:
            if orphans := state.orphans(present):
                log.require_unnamed(state, orphans)
            return state
        newest = log.read()
        if newest.version == state.version:
            break
        state = newest  # there were commits between our reading and our listing
    if missing:
        raise _incomplete(root, state, missing)
    raise CorruptDatasetError(
        f"The log of {root} ends at version {state.version}, but parts/{unheard[0]} is of a later "
        "one: records are missing.",
        "Copy the dataset again, or run `wmtk data repair` to take in what is there.",
        root / "log",
    )


def remove_if_empty(root: Path) -> bool:
    """Remove a dataset into which nothing was ever committed, unless it is open for writing."""
    with (
        contextlib.suppress(DatasetError, OSError),
        atomic.FolderLock(root / "tmp", exclusive=True) as granted,
    ):
        if granted and CommitLog(root).read().version == 0:
            (root / "zarr.json").unlink()  # first: what a kill leaves is then vacant
            atomic.remove_tree(root)
            return True
    return False


def past_state(root: Path, version: int | None, tag: str | None) -> DatasetState:
    """An earlier version by tag or by number, all of whose parts are still there."""
    if tag is not None:
        found = retention.read_tag(root, tag)
        state = DatasetState(found.version, found.parts)
    else:
        state = CommitLog(root).read(upto=version)
    missing = _missing(state, set(os.listdir(root / "parts")))
    if not missing:
        return state
    if tag is None and CommitLog(root).read().live.isdisjoint(missing):
        raise EvictedError(
            f"{len(missing)} parts of version {state.version} of {root} were evicted or compacted "
            "since.",
            "Open the newest version; a tag keeps one from now on.",
            root,
        )
    raise _incomplete(root, state, missing)


def _missing(state: DatasetState, present: Collection[str]) -> list[str]:
    return [entry.part for entry in state.parts if entry.part not in present]


def _incomplete(root: Path, state: DatasetState, missing: list[str]) -> CorruptDatasetError:
    shown = "\n".join(f"  parts/{name}" for name in missing[:SHOWN])
    more = f"\n  and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    return CorruptDatasetError(
        f"{root} is incomplete: {len(missing)} of {len(state.parts)} parts of version "
        f"{state.version} are missing:\n{shown}{more}",
        "Copy the dataset again, or run `wmtk data repair` to go on with what is there.",
        root,
    )
