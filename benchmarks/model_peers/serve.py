"""The contender's side of `benchmarks/model.py`: get ready, then update once for each line sent.

Used by every `run_….py` of this folder, in environments that have little in common: the standard
library and numpy are all it needs. What it says goes to the standard output as lines of JSON;
whatever the libraries print goes to the standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]  # image, action, reward, terminal, is_first: each (B, L, …)


@dataclass(frozen=True)
class Job:
    """What a contender does when it is told to, and what there is to say about it afterwards."""

    run: Callable[[], dict[str, float]]
    about: Callable[[], dict[str, Any]]


def versions(*packages: str) -> dict[str, str]:
    return {package: metadata.version(package) for package in packages}


def serve(prepare: Callable[[Arrays, argparse.Namespace], Job], *options: str) -> None:
    """Prepare with the batch and the arguments, warm up, say so, then run once for each line.

    Each answer has the seconds on the clock, the processor time, and that of having waited: a
    contender that keeps a core busy while others have their turn would spoil the measurement.
    """
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    parser = argparse.ArgumentParser()
    parser.add_argument("batch", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--times", type=int, default=1, help="updates a turn, for short ones")
    for option in options:
        parser.add_argument(f"--{option}")
    args = parser.parse_args()
    began = time.perf_counter()
    with np.load(args.batch) as stored:
        job = prepare(dict(stored), args)
    warming = [job.run() for _ in range(args.warmup)]
    ready = job.about() | {"first": warming[0], "start": time.perf_counter() - began}
    channel.write(json.dumps(ready) + "\n")
    rested = time.process_time()
    for _ in _lines():
        waited = time.process_time() - rested
        clock, cpu = time.perf_counter(), time.process_time()
        for _ in range(args.times):
            result = job.run()
        spent = time.perf_counter() - clock, time.process_time() - cpu
        measured = {"seconds": spent[0] / args.times, "cpu": spent[1] / args.times}
        answer = result | measured | {"waited": waited, "peak": peak()}
        channel.write(json.dumps(answer) + "\n")
        rested = time.process_time()


def _lines() -> Iterable[str]:
    """Of the standard input, as they come."""
    return iter(sys.stdin.readline, "")


def peak() -> int:
    """Bytes: the most that was ever resident.

    Not from getrusage where that can be helped: its figure begins with that of the parent.
    """
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    kilobytes = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * 1024
