"""The cache of decoded chunks: its budget, and what it keeps."""

from __future__ import annotations

import numpy as np

from wmtk.datasets.storage import chunk_cache as module
from wmtk.datasets.storage.chunk_cache import ChunkCache


def chunk() -> np.ndarray:
    return np.zeros(100, np.uint8)


def uses(cache: ChunkCache, number: int, times: int, *, at_once: bool) -> int:
    """How often a chunk is loaded in so many uses."""
    before = cache.misses
    for _ in range(times):
        cache.get(("part", "obs", number), chunk, at_once=at_once)
    return cache.misses - before


def test_chunks_are_kept_at_once_or_from_the_second_use_on() -> None:
    cache = ChunkCache(1000)
    assert uses(cache, 0, 5, at_once=True) == 1
    assert uses(cache, 1, 1, at_once=False) == 1
    assert cache.bytes == 100
    assert uses(cache, 1, 5, at_once=False) == 1
    assert cache.bytes == 200


def test_the_budget_holds_and_the_least_recently_used_go_first() -> None:
    cache = ChunkCache(250)
    for number in (0, 1):
        uses(cache, number, 1, at_once=True)
    uses(cache, 0, 1, at_once=True)
    uses(cache, 2, 1, at_once=True)
    assert cache.bytes == 200
    assert uses(cache, 0, 1, at_once=True) == 0
    assert uses(cache, 1, 1, at_once=True) == 1


def test_marks_of_single_uses_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_MARKS", 10)
    cache = ChunkCache(10_000)
    for number in range(1000):
        uses(cache, number, 1, at_once=False)
    assert len(cache._used_once) <= 10
    assert cache.bytes == 0


def test_chunks_of_dropped_parts_are_forgotten() -> None:
    cache = ChunkCache(1000)
    uses(cache, 0, 1, at_once=True)
    cache.get(("other", "obs", 0), chunk)
    cache.drop_parts({"part"})
    assert cache.bytes == 100
    assert uses(cache, 0, 1, at_once=True) == 1
