"""`ChunkCache`: decoded chunks in memory, least recently used ones are dropped first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Set
from typing import Any

from numpy.typing import NDArray

Key = tuple[str, str, int]  # part, array, number of the chunk
MAX_MARKS = 100_000  # of chunks used once: a few megabytes


class ChunkCache:
    """A cache of read-only arrays under a budget of bytes; safe to share between threads."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._chunks: OrderedDict[Key, NDArray[Any]] = OrderedDict()
        self._used_once: set[int] = set()  # hashes of keys
        self._lock = threading.Lock()

    def get(
        self, key: Key, load: Callable[[], NDArray[Any]], *, at_once: bool = True
    ) -> NDArray[Any]:
        """The chunk of `key`, loaded if it is missing.

        It is stored `at_once`, or else at its second use: with a dataset much larger than the
        budget most chunks are not used again soon, and storing one takes as long as decoding it.

        Two threads that miss the same chunk both load it, which is cheaper than a lock during
        decoding.
        """
        with self._lock:
            chunk = self._chunks.get(key)
            if chunk is not None:
                self._chunks.move_to_end(key)
                self.hits += 1
                return chunk
            self.misses += 1
            store = at_once or self._used_before(key)
        chunk = load()
        chunk.setflags(write=False)
        if not store:
            return chunk
        with self._lock:
            if key not in self._chunks and chunk.nbytes <= self.budget:
                self._chunks[key] = chunk
                self.bytes += chunk.nbytes
                while self.bytes > self.budget:
                    _, oldest = self._chunks.popitem(last=False)
                    self.bytes -= oldest.nbytes
        return chunk

    def _used_before(self, key: Key) -> bool:
        """Whether the key was used before; forgets all keys after MAX_MARKS."""
        mark = hash(key)
        if mark in self._used_once:
            return True
        if len(self._used_once) >= MAX_MARKS:
            self._used_once.clear()
        self._used_once.add(mark)
        return False

    def drop_parts(self, parts: Set[str]) -> None:
        """Drop the chunks of these parts."""
        with self._lock:
            for key in [key for key in self._chunks if key[0] in parts]:
                self.bytes -= self._chunks.pop(key).nbytes
