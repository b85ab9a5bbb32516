"""`Prefetcher`: read batches ahead in background threads."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from wmtk.datasets.sampler import Batch, SequenceSampler


class Prefetcher:
    """Iterates over the batches of a sampler, in order, and reads `depth` of them ahead.

    The batches are those of the sampler alone: its position counts the batches returned, and
    batches read ahead from an older version of the data are drawn again.

    Example:
        >>> from wmtk.datasets import Prefetcher, SequenceSampler
        >>> sampler = SequenceSampler("catch.zarr", batch_size=4, length=10)
        >>> with Prefetcher(sampler) as batches:
        ...     next(batches).reward.shape
        (4, 10)
    """

    def __init__(self, sampler: SequenceSampler, *, depth: int = 4, threads: int = 2) -> None:
        assert depth >= 1, depth
        assert threads >= 1, threads
        self.sampler = sampler
        self.depth = depth
        self.waited = 0.0  # seconds that __next__ had to wait
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="wmtk-prefetch")
        self._ahead: deque[tuple[int, Future[Batch]]] = deque()

    def _fill(self) -> None:
        first = self.sampler.step
        while self._ahead and self._ahead[0][0] != first:
            self._ahead.popleft()[1].cancel()  # the position was changed
        next_step = self._ahead[-1][0] + 1 if self._ahead else first
        for step in range(next_step, first + self.depth):
            self._ahead.append((step, self._pool.submit(self.sampler.sample, step)))

    def __iter__(self) -> Prefetcher:
        return self

    def __next__(self) -> Batch:
        self._fill()
        step, future = self._ahead.popleft()
        began = time.perf_counter()
        batch = future.result()
        if batch.versions != self.sampler.versions:
            batch = self.sampler.sample(step)
        self.waited += time.perf_counter() - began
        self.sampler.step = step + 1
        self._fill()
        return batch

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._ahead.clear()

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
