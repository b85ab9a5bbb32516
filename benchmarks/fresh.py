"""What a new process needs to open a dataset, or to sample from it; prints one line of JSON.

Run by `growth.py`: memory and start-up need a process that has done nothing else.
"""

from __future__ import annotations

import time

_began = time.perf_counter()

import json  # noqa: E402
import re  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

import psutil  # noqa: E402

from wmtk.datasets import Dataset, Prefetcher, SequenceSampler  # noqa: E402

_imported = time.perf_counter() - _began


def opening(path: str) -> dict[str, float]:
    began = time.perf_counter()
    dataset = Dataset.open(path)
    opened = time.perf_counter() - began
    sampler = SequenceSampler(dataset, batch_size=50, length=50)
    ready = time.perf_counter() - began
    sampler.sample()
    first = time.perf_counter() - began
    return {"imported": _imported, "opened": opened, "ready": ready, "first": first}


def sampling(path: str, batches: int) -> dict[str, float]:
    process = psutil.Process()
    before = process.memory_info().rss
    highest = before
    began = time.perf_counter()
    sampler = SequenceSampler(Dataset.open(path), batch_size=50, length=50, uniform_over="steps")
    with Prefetcher(sampler) as ahead:
        for _ in range(batches):
            next(ahead)
            highest = max(highest, process.memory_info().rss)
        after = process.memory_info().rss
        seconds = time.perf_counter() - began
    return {
        "before": before,
        "after": after,
        "peak": max(highest, _high_water_mark()),
        "cache": sampler.cache.bytes,
        "seconds": seconds,
    }


def _high_water_mark() -> int:
    """The most that was ever resident. Not getrusage: that begins with the parent's figure."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    measure, path, *rest = sys.argv[1:]
    print(json.dumps(opening(path) if measure == "open" else sampling(path, int(rest[0]))))
