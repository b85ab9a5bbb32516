"""How fast (B, L) batches come: from memory, from disk, and beside a training loop."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from peers import (
    PEERS,
    Arrays,
    NumpyGather,
    Ours,
    OursSmall,
    Reader,
    Windows,
    arrays_of,
    sampler,
)
from timing import (
    Spread,
    Table,
    Targets,
    forget,
    load_into_page_cache,
    milliseconds,
    seconds,
    times,
)

from wmtk.datasets import Dataset, Prefetcher, SequenceSampler

LENGTH = 50
SLOW = 2.0  # seconds for a batch
# The targets name these; the other rows are there for comparison.
JUDGED = ("zarr-python, our files", "zarr-python, flat array", "Minari, dataset[i]", "npz episodes")


def _windows(draw: SequenceSampler, step: int) -> Windows:
    return Windows.of(draw.sample(step))


def _require_equal(ours: Arrays, theirs: Arrays, who: str) -> None:
    for key, values in theirs.items():
        same = np.array_equal(ours[key], values.astype(ours[key].dtype))
        assert same, f"{who} gives another {key} than the sampler"


# --- from memory ------------------------------------------------------------------------------


def resident(source: Path, color: str, repeats: int, table: Table, targets: Targets) -> None:
    """The sampler with room for everything against numpy gathering the same windows.

    Both work in one thread and wait for nothing: their processor time is judged, which others on
    the machine disturb least.
    """
    dataset = Dataset.open(source)
    ours = sampler(dataset, LENGTH, memory=2 * dataset.raw_bytes)
    gather = NumpyGather(dataset, LENGTH)
    indices = [gather.index(_windows(ours, step)) for step in range(repeats)]  # and warm-up
    _require_equal(arrays_of(ours.sample(0)), gather.batch(indices[0]), "numpy")
    found: dict[str, list[tuple[float, float]]] = {"numpy gather": [], "wmtk, all in memory": []}
    for step in range(repeats):
        actions: list[tuple[str, Callable[[], object]]] = [
            ("numpy gather", partial(gather.batch, indices[step])),
            ("wmtk, all in memory", partial(ours.sample, step)),
        ]
        random.shuffle(actions)
        for name, action in actions:
            found[name].append(times(action))
    base: list[Spread] | None = None
    for name, measured in found.items():
        spreads = [Spread.of(column) for column in zip(*measured, strict=True)]
        base = base or spreads
        wall, cpu = (own.median / b.median for own, b in zip(spreads, base, strict=True))
        table.add(color, name, spreads[1], f"{cpu:.2f}×", spreads[0], f"{wall:.2f}×")
    targets.at_most(f"{color}: in memory, processor time against a numpy gather", cpu, 1.5)


# --- from disk --------------------------------------------------------------------------------


def readers(source: Path, folder: Path) -> list[Reader]:
    """Everyone, with their copies of the data written."""
    found: list[Reader] = [kind(source, folder, LENGTH) for kind in (Ours, OursSmall, *PEERS)]
    for reader in found:
        reader.store()
    return found


def _read(reader: Reader, draw: SequenceSampler, step: int) -> Callable[[], Arrays]:
    """Reading the batch of a step; a peer gets its windows beforehand."""
    if isinstance(reader, Ours):
        return lambda: arrays_of(reader.sampler.sample(step))
    windows = _windows(draw, step)
    return lambda: reader.batch(windows)


def streaming(
    source: Path, color: str, folder: Path, rounds: int, following: int, targets: Targets
) -> Table:
    """Everyone reads the same batches: the first ones from a cold start, then with all warm."""
    contenders = readers(source, folder)
    draw = sampler(Dataset.open(source), LENGTH, memory=2**20)
    first: dict[str, list[float]] = {reader.name: [] for reader in contenders}
    nexts: dict[str, list[float]] = {reader.name: [] for reader in contenders}
    steady: dict[str, list[float]] = {reader.name: [] for reader in contenders}
    expected = arrays_of(draw.sample(0))

    def taking_part(round_number: int) -> list[Reader]:
        """In random order; who takes seconds for a batch sits out most rounds."""
        quick = [r for r in contenders if round_number % 3 == 0 or first[r.name][0] < SLOW]
        return random.sample(quick, len(quick))

    for round_number in range(rounds):
        begin = round_number * (following + 1)
        for reader in taking_part(round_number):
            actions = [_read(reader, draw, begin + n) for n in range(following + 1)]
            how = forget(reader.path)
            gc.collect()
            first[reader.name].append(seconds(lambda: (reader.open(), actions[0]())))  # noqa: B023
            nexts[reader.name] += [seconds(action) for action in actions[1:]]
            if round_number == 0:
                _require_equal(expected, actions[0](), reader.name)
    for reader in contenders:
        load_into_page_cache(reader.path)
        if isinstance(reader, Ours):
            _fill_cache(reader.sampler)
    for round_number in range(2 * rounds):
        for reader in taking_part(round_number):
            action = _read(reader, draw, 10_000 + round_number)
            steady[reader.name].append(seconds(action))
    cold = "start and first batch, cold"
    columns = ("reader", cold, f"next {following} batches", "steady", "cold", "next", "steady ")
    note = (
        f"Milliseconds per batch, median (quartiles), and how many times slower than wmtk with "
        f"512 MB. Cold: {how}."
    )
    table = Table(f"Batches of 50 × 50 from disk, {color}", columns, note)
    name = Ours.name
    ours = [Spread.of(column[name]).median for column in (first, nexts, steady)]
    for reader in contenders:
        spreads = [Spread.of(column[reader.name]) for column in (first, nexts, steady)]
        ratios = [spread.median / own for spread, own in zip(spreads, ours, strict=True)]
        table.add(reader.name, *spreads, *[f"{ratio:.1f}×" for ratio in ratios])
        if reader.name in JUDGED:
            stream = spreads[0].median + following * spreads[1].median
            rate = stream / (ours[0] + following * ours[1])
            what = f"{color}: faster than {reader.name}"
            targets.at_least(f"{what}, start and first batch, cold", ratios[0], 5)
            targets.at_least(f"{what}, start and first {following + 1} batches, cold", rate, 5)
            targets.at_least(f"{what}, steady", ratios[2], 5)
    return table


def _fill_cache(sampler: SequenceSampler) -> None:
    """Sample until the budget is used up or everything is held."""
    for step in range(20_000, 20_400):
        sampler.sample(step)
        if sampler.cache.bytes > 0.98 * sampler.memory:
            return


# --- beside training --------------------------------------------------------------------------


def training(source: Path, color: str, step_seconds: dict[float, int], targets: Targets) -> Table:
    """A loop of torch work on all cores that takes its batches from a Prefetcher."""
    import torch

    cores = os.cpu_count() or 1
    torch.set_num_threads(cores)
    left = torch.rand(768, 768)

    def work(products: int) -> None:
        for _ in range(products):
            torch.tanh(left @ left)

    pace = min(seconds(lambda: work(20)) for _ in range(5)) / 20
    columns = ("work per step", "steps", "first batch", "waited per step", "share", "reading")
    note = (
        "Waiting in milliseconds. Work: torch products on all cores. Reading: its processor time, "
        "as a share of what all cores give in a step; the loop is slowed down by that much."
    )
    table = Table(f"A training loop on batches from disk, {color}, 512 MB", columns, note)
    for duration, steps in step_seconds.items():
        products = round(duration / pace)
        data = sampler(Dataset.open(source), LENGTH, memory=512 * 2**20)
        with Prefetcher(data) as batches:
            next(batches)
            first = batches.waited
            began = time.perf_counter()
            for _ in range(steps):
                work(products)
                next(batches)
            loop = time.perf_counter() - began
            waited = batches.waited - first
        reading = np.median([times(data.sample)[1] for _ in range(10)])
        shares = f"{waited / loop:.3%}", f"{reading / (duration * cores):.1%}"
        each = milliseconds(waited / steps)
        table.add(f"{duration:g} s", steps, milliseconds(first), each, *shares)
    share = 100 * waited / loop
    targets.at_most(f"waiting for data in a {duration:g} s training step", share, 0.1, "%")
    return table
