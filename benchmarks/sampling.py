"""How fast (B, L) batches come: from memory, from disk, and beside a training loop."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable
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
from timing import Spread, Table, Targets, forget, load_into_page_cache, milliseconds, seconds

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


def resident(source: Path, colour: str, repeats: int, table: Table, targets: Targets) -> None:
    """The sampler with room for everything against numpy gathering the same windows."""
    dataset = Dataset.open(source)
    ours = sampler(dataset, LENGTH, memory=2 * dataset.raw_bytes)
    gather = NumpyGather(dataset, LENGTH)
    indices = [gather.index(_windows(ours, step)) for step in range(repeats)]  # and warm-up
    _require_equal(arrays_of(ours.sample(0)), gather.batch(indices[0]), "numpy")
    times: dict[str, list[float]] = {"numpy gather": [], "wmtk, all in memory": []}
    for step in range(repeats):
        actions: list[tuple[str, Callable[[], object]]] = [
            ("numpy gather", lambda step=step: gather.batch(indices[step])),  # type: ignore[misc]
            ("wmtk, all in memory", lambda step=step: ours.sample(step)),  # type: ignore[misc]
        ]
        random.shuffle(actions)
        for name, action in actions:
            times[name].append(seconds(action))
    base = Spread.of(times["numpy gather"])
    for name, measured in times.items():
        spread = Spread.of(measured)
        table.add(colour, name, spread, f"{spread.median / base.median:.2f}×")
    ratio = Spread.of(times["wmtk, all in memory"]).median / base.median
    targets.at_most(f"{colour}: in memory, time against a numpy gather", ratio, 1.5)


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
    source: Path, colour: str, folder: Path, rounds: int, following: int, targets: Targets
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
    table = Table(f"Batches of 50 × 50 from disk, {colour}", columns, note)
    name = Ours.name
    ours = [Spread.of(times[name]).median for times in (first, nexts, steady)]
    for reader in contenders:
        spreads = [Spread.of(times[reader.name]) for times in (first, nexts, steady)]
        ratios = [spread.median / own for spread, own in zip(spreads, ours, strict=True)]
        table.add(reader.name, *spreads, *[f"{ratio:.1f}×" for ratio in ratios])
        if reader.name in JUDGED:
            for when, ratio in zip(("cold", "next", "steady"), ratios, strict=True):
                targets.at_least(f"{colour}: faster than {reader.name}, {when}", ratio, 5)
    return table


def _fill_cache(sampler: SequenceSampler) -> None:
    """Sample until the budget is used up or everything is held."""
    for step in range(20_000, 20_400):
        sampler.sample(step)
        if sampler.cache.bytes > 0.98 * sampler.memory:
            return


# --- beside training --------------------------------------------------------------------------


def training(source: Path, step_seconds: dict[float, int], targets: Targets) -> Table:
    """A loop of torch work on all cores that takes its batches from a Prefetcher."""
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    left = torch.rand(768, 768)

    def work(products: int) -> None:
        for _ in range(products):
            torch.tanh(left @ left)

    pace = min(seconds(lambda: work(20)) for _ in range(5)) / 20
    columns = (
        "work per step",
        "steps",
        "first batch",
        "waited per step",
        "share",
        "work slower by",
    )
    note = (
        "Waiting in milliseconds. Work: torch products on all cores, which reading competes with."
    )
    table = Table("A training loop on batches from disk, RGB, 512 MB", columns, note)
    for duration, steps in step_seconds.items():
        products = round(duration / pace)
        data = sampler(Dataset.open(source), LENGTH, memory=512 * 2**20)
        alone, beside = [], []
        with Prefetcher(data) as batches:
            next(batches)
            first = batches.waited
            for _ in range(steps):
                alone.append(seconds(lambda: work(products)))  # noqa: B023 (all is read by then)
                next(batches)
                beside.append(seconds(lambda: work(products)))  # noqa: B023 (a batch is replaced)
            waited = batches.waited - first
        share = waited / (waited + sum(beside))
        slower = np.median(np.array(beside) / np.array(alone)) - 1
        each = milliseconds(waited / steps)
        table.add(
            f"{duration:g} s", steps, milliseconds(first), each, f"{share:.3%}", f"{slower:.1%}"
        )
    targets.at_most(f"waiting for data in a {duration:g} s training step", 100 * share, 0.1, "%")
    return table
