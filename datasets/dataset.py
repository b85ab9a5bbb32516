"""`Dataset`: episodes in a folder that several processes may read and write at the same time."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from wmtk.datasets.episode import Episode
from wmtk.datasets.episode_table import EpisodeTable
from wmtk.datasets.schema import Schema
from wmtk.datasets.storage import atomic, compaction, hosts, retention
from wmtk.datasets.storage.chunk_cache import ChunkCache
from wmtk.datasets.storage.commit_log import CommitLog
from wmtk.datasets.storage.dataset_state import Commit, DatasetState
from wmtk.datasets.storage.header import is_vacant, make_folders, read_header, write_header
from wmtk.datasets.storage.opening import newest_state, past_state, remove_if_empty
from wmtk.datasets.storage.part import PartEntry, new_part_id, write_part
from wmtk.datasets.storage.part_reader import PartReader
from wmtk.datasets.storage.shard import APPEND_LEVEL
from wmtk.errors import (
    CorruptDatasetError,
    DatasetError,
    EpisodeError,
    EvictedError,
    ReadOnlyError,
    UsageError,
)

_logger = logging.getLogger(__name__)
ONLINE_CAPACITY = 2_000_000  # steps, the paper's replay


class Dataset:
    """A snapshot of an episode dataset; `refresh` moves it to the newest version.

    Indexing, iteration and `follow` return whole `Episode`s. Reading an episode that was evicted
    after the snapshot was taken raises EvictedError; all others stay readable.

    Example:
        >>> import wmtk
        >>> dataset = wmtk.Dataset.open("catch.zarr")
        >>> len(dataset), dataset.num_steps
        (8, 632)
        >>> episode = dataset[0]
        >>> episode.obs["image"].shape  # row 0 is the observation of the reset
        (80, 64, 64, 1)
        >>> batch = wmtk.SequenceSampler(dataset, batch_size=4, length=10).sample()
        >>> batch.reward.shape
        (4, 10)
    """

    def __init__(
        self, path: Path, mode: Literal["r", "a"], header: Mapping[str, Any], state: DatasetState
    ) -> None:
        self.path = path
        self.mode = mode
        self.header = header
        self.schema = Schema.from_json(header["schema"])
        self.capacity: int | None = header["capacity"]
        self._log = CommitLog(path)
        self._state = state
        self._pinned = False
        self._arrays_match = False  # whether the schema has been compared with a part's arrays
        self._is_provisional = False
        self._resources = contextlib.ExitStack()
        if mode == "a":
            self._become_writer()

    # --- opening ---

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: Schema,
        *,
        env: Mapping[str, Any] | None = None,
        capacity: int | None = None,
        attributes: Mapping[str, Any] | None = None,
        provisional: bool = False,
    ) -> Dataset:
        """Create an empty dataset, open for appending.

        Args:
            path: A folder that does not exist or is empty.
            schema: The arrays of every episode.
            env: Description of the task (id, kwargs, settings), as JSON-ready data.
            capacity: Steps beyond which appending evicts the oldest episodes.
            attributes: JSON-ready data to store with the dataset.
            provisional: Delete the dataset on `close` if it is still empty.
        """
        if not isinstance(schema, Schema):
            raise UsageError(f"The schema is a {type(schema).__name__}, not a Schema.")
        root = atomic.absolute_path(path)
        if capacity is not None and capacity < 1:
            raise UsageError(f"A capacity of {capacity} steps is too small.", "Use 1 or more.")
        if not is_vacant(root):
            raise DatasetError(
                f"{root} exists already and is not an empty folder.",
                "Choose another path, or open the dataset to append to it.",
                root,
            )
        write_header(root, schema, env or {}, capacity, attributes or {})
        dataset = cls.open(root, "a")
        dataset._is_provisional = provisional
        return dataset

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "a"] = "r",
        *,
        version: int | None = None,
        tag: str | None = None,
    ) -> Dataset:
        """Open a dataset for reading (mode "r") or for reading and appending (mode "a").

        `version` or `tag` select an old version, which can only be read.
        """
        if mode not in ("r", "a"):
            raise UsageError(f"Datasets cannot be opened with mode {mode!r}.", "Use 'r' or 'a'.")
        if version is not None and (not isinstance(version, int) or version < 0):
            raise UsageError(f"{version!r} is not a version.", "Versions are numbered from 0.")
        root = atomic.absolute_path(path)
        header = read_header(root)
        if tag is None and version is None:
            return cls(root, mode, header, newest_state(root))
        if mode != "r" or (tag is not None and version is not None):
            raise UsageError("An old version can only be read; name it by tag or by number.")
        dataset = cls(root, "r", header, past_state(root, version, tag))
        dataset._pinned = True
        return dataset

    def _become_writer(self) -> None:
        """Acquire the writers' lock, which excludes `repair`; delete files of killed writers."""
        with atomic.translate_os_errors(self.path):
            if not os.access(self.path / "log", os.W_OK):
                raise ReadOnlyError(
                    f"{self.path} cannot be written.",
                    "Open it for reading, or check the permissions.",
                    self.path,
                )
            make_folders(self.path)
            try:
                hosts.lock_for_writing(self.path, self._resources)
            except BaseException:
                self._resources.close()
                raise
            retention.clean_staging(self.path)
            retention.collect_garbage(self.path, self._state)

    def close(self) -> None:
        self._resources.close()
        if self._is_provisional:
            self._is_provisional = False
            remove_if_empty(self.path)

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- properties ---

    @property
    def id(self) -> str:
        return str(self.header["id"])

    @property
    def env(self) -> Mapping[str, Any]:
        env: Mapping[str, Any] = self.header["env"]
        return env

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def parts(self) -> tuple[PartEntry, ...]:
        return self._state.parts

    @property
    def next_episode(self) -> int:
        """The number of the next episode: the count of all episodes ever committed."""
        return self._state.next_episode

    @cached_property
    def writer(self) -> int:
        """A number that no other process with the dataset open for writing has, from 0 on."""
        self._require_writable()
        return hosts.writer_number(self.path, self._resources)

    @property
    def num_steps(self) -> int:
        return self._state.steps

    @property
    def num_episodes(self) -> int:
        return len(self.episodes)

    @property
    def stored_bytes(self) -> int:
        return sum(entry.bytes for entry in self.parts)

    @property
    def raw_bytes(self) -> int:
        return self.schema.row_bytes * sum(entry.rows for entry in self.parts)

    @cached_property
    def episodes(self) -> EpisodeTable:
        """The episodes of this snapshot as columns."""
        return EpisodeTable.of(self._state.parts)

    def __len__(self) -> int:
        return self.num_episodes

    def __repr__(self) -> str:
        return (
            f"Dataset({str(self.path)!r}, version={self.version}, "
            f"episodes={self.num_episodes}, steps={self.num_steps})"
        )

    # --- reading ---

    def refresh(self) -> bool:
        """Move to the newest version; returns whether it differs from the current one."""
        if self._pinned:
            return False
        state = self._log.read(since=self._state)
        moved = state.version != self.version
        self._move_to(state)
        return moved

    def _move_to(self, state: DatasetState) -> None:
        self._state = state
        self.__dict__.pop("episodes", None)

    def open_part(self, entry: PartEntry, cache: ChunkCache | None = None) -> PartReader:
        """A reader of one part of this snapshot."""
        with self.reading(entry):
            reader = PartReader(self.path, self.schema, entry, cache)
            if not self._arrays_match:  # one part is enough: the check detects a forged schema
                reader.require_arrays()
                self._arrays_match = True
            return reader

    @contextlib.contextmanager
    def reading(self, entry: PartEntry) -> Iterator[None]:
        """Raise EvictedError or CorruptDatasetError if a file of a part is missing."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, CorruptDatasetError) as error:
            missing = not (self.path / "parts" / entry.part).exists()
            if missing and entry.part not in self._log.read().live:
                raise EvictedError(
                    f"Part {entry.part} of {self.path} was evicted or compacted after version "
                    f"{self.version} was opened.",
                    "Call refresh() for the newest version; tag a version to keep it.",
                    self.path / "parts" / entry.part,
                ) from error
            if isinstance(error, CorruptDatasetError):
                raise
            path = Path(error.filename)
            raise CorruptDatasetError(
                f"{path} is missing.",
                "Copy it again, or run `wmtk data repair` to continue without its part.",
                path,
            ) from error

    def __getitem__(self, index: int) -> Episode:
        if not hasattr(index, "__index__"):
            raise UsageError(
                f"{index!r} is not the number of an episode.",
                "Episodes are read one at a time: [dataset[number] for number in range(3)].",
            )
        table = self.episodes
        if not -len(table) <= index < len(table):
            raise IndexError(f"episode {index} of {len(table)}")
        entry = table.parts[table.part[index]]
        with self.reading(entry):
            return self.open_part(entry).episode(int(table.number[index]))

    def __iter__(self) -> Iterator[Episode]:
        for entry in self.parts:
            yield from self._episodes_in(entry)

    def _episodes_in(self, entry: PartEntry) -> Iterator[Episode]:
        with self.reading(entry):
            yield from self.open_part(entry).episodes()

    def describe(self) -> Iterator[dict[str, Any]]:
        """The metadata of every episode: id, length, return, end, seed, provenance, part."""
        for entry in self.parts:
            for record in self.open_part(entry).attributes.records():
                yield {**record, "part": entry.part}

    def follow(self, *, poll: float = 0.5, timeout: float | None = None) -> Iterator[Episode]:
        """Iterate over all episodes, then over new ones as they are committed.

        Checks for new ones every `poll` seconds and ends after `timeout` seconds without any.
        Episodes that are evicted before their turn are skipped.
        """
        next_number = 0
        last_episode = time.monotonic()
        while True:
            version = self.version
            try:
                for number, episode in self._episodes_from(next_number):
                    next_number = number + 1
                    yield episode
                    last_episode = time.monotonic()
            except EvictedError:
                if not self.refresh() and self.version == version:
                    raise
                continue
            if timeout is not None and time.monotonic() - last_episode > timeout:
                return
            if not self.refresh():
                time.sleep(poll)

    def _episodes_from(self, first: int) -> Iterator[tuple[int, Episode]]:
        """The episodes of this snapshot from number `first` on, with their numbers."""
        for entry in self.parts:
            if entry.stop <= first:
                continue
            reader = self.open_part(entry)
            for index in range(max(0, first - entry.first), len(entry.ids)):
                with self.reading(entry):
                    episode = reader.episode(index)
                yield entry.first + index, episode

    # --- writing ---

    def _require_writable(self) -> None:
        if self.mode != "a":
            raise ReadOnlyError(
                f"{self.path} was opened for reading.", "Open it with mode 'a'.", self.path
            )
        hosts.require_ownership(self.path)

    def append(self, episodes: Episode | Sequence[Episode], *, bounds: bool = True) -> int:
        """Commit whole episodes, all or none; once this returns they survive a crash.

        Evicts the oldest episodes beyond the capacity (never the newest one), and joins small
        parts from time to time.

        Args:
            episodes: One episode or several.
            bounds: Refuse actions and observations beyond the bounds of the schema. Copies of
                stored episodes pass False: older datasets may hold such values.

        Returns:
            The version that contains the episodes.
        """
        self._require_writable()
        several = isinstance(episodes, Iterable) and not isinstance(episodes, Episode | Mapping)
        batch: list[Any] = [*episodes] if several else [episodes]  # type: ignore[misc]
        for each in batch:
            if not isinstance(each, Episode):
                raise EpisodeError(
                    f"A {type(each).__name__} is not an episode.",
                    "Create one from arrays: Episode.from_transitions.",
                )
        if not batch:
            raise EpisodeError("There is no episode to append.")
        for number, episode in enumerate(batch):
            try:
                episode.check_form(self.schema)
                if bounds:
                    episode.check_bounds(self.schema)
            except EpisodeError as error:
                message = f"Episode {number} of {len(batch)}: {error.message}"
                raise type(error)(message, error.hint, self.path) from error
        entries = self._write_parts(batch)
        steps = sum(entry.steps for entry in entries)
        part_steps = self._part_steps(self.capacity)

        def plan(state: DatasetState) -> Commit:
            evicted = retention.parts_to_evict(state, self.capacity, part_steps, steps)
            return Commit("append", entries, evicted)

        try:
            self._move_to(self._log.commit(self._state, plan))
        except BaseException:
            self._discard(entries)
            raise
        version = self.version
        try:
            if self.capacity is not None:
                self._evict_beyond(self.capacity)
            self._housekeep()
            self._join_small_parts(everything=False)
        except (DatasetError, OSError) as error:
            # The episodes are committed: the append has succeeded.
            _logger.warning("%s: housekeeping was put off: %s", self.path, error)
        return version

    def _write_parts(self, episodes: Sequence[Episode]) -> tuple[PartEntry, ...]:
        """Write one part, or with a capacity several parts that are small in comparison."""
        groups = [episodes]
        if self.capacity is not None:
            groups = list(compaction.split(episodes, self._part_steps(self.capacity)))
        entries: list[PartEntry] = []
        try:
            for group in groups:
                name = new_part_id(self.version + 1)
                entries.append(write_part(self.path, name, self.schema, group, APPEND_LEVEL))
        except BaseException:
            self._discard(entries)
            raise
        return tuple(entries)

    def _discard(self, entries: Sequence[PartEntry]) -> None:
        for entry in entries:
            compaction.discard_uncommitted(self.path, self._log, entry.part)

    def _part_steps(self, capacity: int | None) -> int:
        """Steps of a part; parts are evicted as a whole."""
        return compaction.target_steps(capacity, self.schema.row_bytes)

    def _evict_beyond(self, capacity: int) -> None:
        """Remove the oldest parts beyond a capacity, and the oldest episodes of a large part."""

        def plan(state: DatasetState) -> Commit | None:
            evicted = retention.parts_to_evict(state, capacity, self._part_steps(capacity))
            return Commit("evict", remove=evicted) if evicted else None

        self._move_to(self._log.commit(self._state, plan))
        excess = self.num_steps - capacity
        if excess <= 0:
            return
        oldest = self.parts[0]
        # The newest episode of all always stays.
        evicted = min(retention.episodes_with_steps(oldest, excess), len(oldest.ids) - 1)
        if evicted:
            try:
                episodes = list(self._episodes_in(oldest))[evicted:]
            except EvictedError:
                self.refresh()  # another process evicted it
                return
            state = compaction.join(
                self.path, self.schema, self._log, self._state, (oldest,), episodes, evicted=evicted
            )
            self._move_to(state)

    def _housekeep(self) -> None:
        """Delete the files of removed parts, and shorten the log."""
        retention.collect_garbage(self.path, self._state)
        self._move_to(self._log.snapshot_if_due(self._state))

    def evict(self, capacity: int) -> int:
        """Remove the oldest episodes beyond `capacity` steps; returns the steps removed."""
        self._require_writable()
        self.refresh()
        before = self.num_steps
        self._evict_beyond(capacity)
        self._housekeep()
        return before - self.num_steps

    def compact(self) -> int:
        """Join small neighboring parts; returns the decrease in the number of parts."""
        self._require_writable()
        self.refresh()
        before = len(self.parts)
        self._join_small_parts(everything=True)
        return before - len(self.parts)

    def _join_small_parts(self, *, everything: bool) -> None:
        target = compaction.target_steps(self.capacity, self.schema.row_bytes)
        for run in list(compaction.runs(self._state, target, everything=everything)):
            try:
                episodes = [episode for entry in run for episode in self._episodes_in(entry)]
            except EvictedError:
                self.refresh()  # another process evicted or compacted one of them
                continue
            state = compaction.join(self.path, self.schema, self._log, self._state, run, episodes)
            self._move_to(state)
            self._housekeep()

    def tag(self, name: str, note: str = "") -> retention.Tag:
        """Name this version; its parts stay on disk until the tag is deleted."""
        with atomic.translate_os_errors(self.path), contextlib.ExitStack() as stack:
            make_folders(self.path)
            hosts.lock_for_writing(self.path, stack)
            return retention.write_tag(self.path, name, self._state, note)

    def tags(self) -> list[retention.Tag]:
        return list(retention.read_tags(self.path))

    def delete_tag(self, name: str) -> None:
        """Delete a tag, and the files of parts that only this tag names."""
        self._require_writable()
        retention.read_tag(self.path, name)
        with atomic.translate_os_errors(self.path):
            retention.tag_path(self.path, name).unlink(missing_ok=True)
            atomic.sync(self.path / "tags")
        self.refresh()
        self._housekeep()
