"""Two million steps: opening, memory while sampling, and what an append costs."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from timing import Spread, Table, Targets, megabytes, seconds

from wmtk.datasets import Dataset, Episode


def _fresh(measure: str, path: Path, *rest: object) -> dict[str, Any]:
    script = Path(__file__).with_name("fresh.py")
    command = [sys.executable, str(script), measure, str(path), *map(str, rest)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def large(path: Path, runs: int, batches: int, targets: Targets) -> Table:
    """Opening and sampling in fresh processes."""
    dataset = Dataset.open(path)
    note = (
        f"{dataset.num_steps:,} steps in {dataset.num_episodes:,} episodes and "
        f"{len(dataset.parts):,} parts, {megabytes(dataset.stored_bytes)} MB on disk, "
        f"{megabytes(dataset.raw_bytes)} MB decoded."
    )
    table = Table("A large dataset in a new process, gray", ("what", "measured"), note)
    opened = [_fresh("open", path) for _ in range(runs)]
    for what, key in (
        ("opening", "opened"),
        ("opening and building a sampler", "ready"),
        ("opening to the first batch", "first"),
        ("importing wmtk.datasets, before all that", "imported"),
    ):
        table.add(f"{what}, ms", Spread.of([run[key] for run in opened]))
    opening = Spread.of([run["opened"] for run in opened]).median
    targets.at_most(f"opening {dataset.num_steps:,} steps", opening, 1, " s")
    memory = _fresh("sample", path, batches)
    growth = memory["after"] - memory["before"]
    peak = memory["peak"] - memory["before"]
    table.add("resident memory of the process before opening, MB", megabytes(memory["before"]))
    table.add(f"its growth after {batches} batches, MB", megabytes(growth))
    table.add("its growth at the peak, MB", megabytes(peak))
    table.add("of it decoded chunks (the default budget is 537 MB), MB", megabytes(memory["cache"]))
    table.add("batches of 50 × 50 per second", f"{batches / memory['seconds']:.0f}")
    targets.at_most("resident memory to sample from it", peak / 1e9, 1, " GB")
    return table


# --- appending --------------------------------------------------------------------------------


def appending(
    small: Path, big: Path, source: Path, count: int, folder: Path, targets: Targets
) -> Table:
    """Appending the same episodes to a small and a big dataset, in turn."""
    columns = ("appending to", "median", "mean", "against small", "commits", "steps evicted")
    note = (
        f"Milliseconds per append of one episode, {count} of them; the mean includes joining small "
        "parts, snapshots of the log and eviction. With a capacity, each dataset is exactly full."
    )
    table = Table("Appending", columns, note)
    for full in (False, True):
        copies = {name: folder / f"append-{name}.zarr" for name in ("small", "big")}
        for name, origin in (("small", small), ("big", big)):
            shutil.rmtree(copies[name], ignore_errors=True)
            # Parts and log records never change: links are as good as copies.
            shutil.copytree(origin, copies[name], copy_function=os.link)
        _append(copies, source, count, full, table, targets)
        for path in copies.values():
            shutil.rmtree(path)
    return table


def _append(
    copies: dict[str, Path], source: Path, count: int, full: bool, table: Table, targets: Targets
) -> None:
    datasets = {name: Dataset.open(path, "a") for name, path in copies.items()}
    times: dict[str, list[float]] = {name: [] for name in datasets}
    before = {name: (d.num_steps, d.version) for name, d in datasets.items()}
    for dataset in datasets.values():
        if full:
            dataset.capacity = dataset.num_steps
    appended = 0
    for number, episode in enumerate(_episodes(source, count + 2)):
        for name, dataset in datasets.items():
            taken = seconds(lambda: dataset.append(episode))  # noqa: B023
            if number >= 2:  # the first ones warm up
                times[name].append(taken)
        appended += episode.length
    means = {name: float(np.mean(measured)) for name, measured in times.items()}
    for name, dataset in datasets.items():
        steps, version = before[name]
        kind = f"{steps:,} steps" + (", full" if full else "")
        ratio = means[name] / means["small"]
        evicted = steps + appended - dataset.num_steps
        commits = dataset.version - version
        mean = f"{1000 * means[name]:.1f}"
        table.add(kind, Spread.of(times[name]), mean, f"{ratio:.2f}×", commits, f"{evicted:,}")
        dataset.close()
    what = "an append at the capacity" if full else "an append"
    targets.at_most(f"{what}, big against small, mean", means["big"] / means["small"], 1.25)


def _episodes(source: Path, count: int) -> Iterator[Episode]:
    """Real episodes of 300 to 1,000 steps, no two the same."""
    given = 0
    dataset = Dataset.open(source)
    for shift in itertools.count(1):
        for episode in dataset:
            if given >= count:
                return
            if 300 <= episode.length <= 1000 or len(dataset) < 50:
                image = np.roll(episode.obs["image"], shift, axis=1)
                yield replace(episode, obs={"image": image})
                given += 1
