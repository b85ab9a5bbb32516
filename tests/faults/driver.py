"""Writes and reads datasets in processes of its own, for tests that kill, starve or race them.

`driver.py serve` forks a process for each request, so that a kill costs milliseconds and not
the start of an interpreter. `driver.py work NAME ROOT NUMBER NUMBER` runs one task.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wmtk.datasets import Dataset, Episode, Prefetcher, Provenance, Schema, SequenceSampler
from wmtk.errors import EvictedError
from wmtk.spaces import ArraySpec

Acknowledge = Callable[[str], None]
STEPS = 4  # of every episode, by default
SCHEMA = Schema(
    obs={
        "image": ArraySpec("box", (8, 8, 1), "uint8", 0, 255),
        "robot/pos": ArraySpec("box", (2,), "float32"),
    },
    action=ArraySpec("discrete", (), "int64", 0, 3),
)


@functools.cache
def episode(number: int, steps: int = STEPS) -> Episode:
    """An episode whose whole content follows from its number, which it carries."""
    rng = np.random.default_rng(number)
    rows = steps + 1
    action, reward = rng.integers(0, 4, rows), rng.normal(size=rows)
    action[0] = reward[0] = 0
    pos = np.stack([np.full(rows, number), np.arange(rows)], axis=1).astype(np.float32)
    return Episode(
        obs={"image": rng.integers(0, 256, (rows, 8, 8, 1), np.uint8), "robot/pos": pos},
        action=action,
        reward=reward,
        terminated=bool(number % 2),
        truncated=not number % 2,
        seed=number,
        provenance=Provenance("test/Fault-v0", policy="random"),
    )


def number_of(found: Episode) -> int:
    """The number of an episode that was read, which must be the true one in every byte."""
    number = int(found.obs["robot/pos"][0, 0])
    true = episode(number, found.length)
    assert found.id == true.id, f"episode {number} was read wrongly"
    assert found.seed == number, found.seed
    return number


def check_batch(batch: Any) -> None:
    """Every window of a batch must be a window of the true episode."""
    for b, mask in enumerate(batch.mask):
        rows = int(mask.sum())
        pos = batch.obs["robot/pos"][b, :rows]
        start, number = int(batch.start[b]), int(pos[0, 0])
        true = episode(number)
        span = slice(start, start + rows)
        assert np.array_equal(pos, true.obs["robot/pos"][span]), (number, pos)
        assert np.array_equal(batch.obs["image"][b, :rows], true.obs["image"][span]), number
        assert np.array_equal(batch.action[b, :rows], true.action[span]), number
        assert np.array_equal(batch.reward[b, :rows], true.reward[span].astype(np.float32)), number


def _tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())  # one call: nothing is lost in a buffer by a kill


# --- operations that are killed at each of their system calls ---------------------------------


def _append(root: Path, acknowledge: Acknowledge) -> None:
    with Dataset.open(root, "a") as dataset:
        for number in (100, 101):
            dataset.append(episode(number))
            acknowledge(str(number))


def _evict(root: Path, acknowledge: Acknowledge) -> None:
    with Dataset.open(root, "a") as dataset:
        dataset.evict(2 * STEPS)
        acknowledge("evict")


def _compact(root: Path, acknowledge: Acknowledge) -> None:
    with Dataset.open(root, "a") as dataset:
        dataset.compact()
        acknowledge("compact")


def _tag(root: Path, acknowledge: Acknowledge) -> None:
    with Dataset.open(root, "a") as dataset:
        if "new" not in [tag.name for tag in dataset.tags()]:
            dataset.tag("new")
        acknowledge("tag")


def _delete_tag(root: Path, acknowledge: Acknowledge) -> None:
    with Dataset.open(root, "a") as dataset:
        if "old" in [tag.name for tag in dataset.tags()]:
            dataset.delete_tag("old")
        acknowledge("delete_tag")


def _snapshot(root: Path, acknowledge: Acknowledge) -> None:
    with Dataset.open(root, "a") as dataset:
        dataset._log.snapshot(dataset._state)
        acknowledge("snapshot")


def _create(root: Path, acknowledge: Acknowledge) -> None:
    with Dataset.create(root / "created.zarr", SCHEMA):
        acknowledge("create")


def save_checkpoint(root: Path, step: int, number: int, *, best: bool = False) -> None:
    """A checkpoint whose whole content follows from its number."""
    import torch

    from wmtk.runs.checkpoint import Checkpoints

    tensors = {"x": torch.full((500,), float(number))}
    Checkpoints(root, keep=2).save(step, tensors, {"number": number}, best=best)


def _save(root: Path, acknowledge: Acknowledge) -> None:
    save_checkpoint(root, 5, 5, best=True)
    acknowledge("5")


def _save_again(root: Path, acknowledge: Acknowledge) -> None:
    save_checkpoint(root, 4, 40)
    acknowledge("40")


def _save_the_same(root: Path, acknowledge: Acknowledge) -> None:
    save_checkpoint(root, 4, 4)
    acknowledge("4")


def _save_first(root: Path, acknowledge: Acknowledge) -> None:
    save_checkpoint(root / "new", 1, 1, best=True)
    acknowledge("1")


OPERATIONS: dict[str, Callable[[Path, Acknowledge], None]] = {
    "append": _append,
    "append_evicting": _append,  # on a dataset that is at its capacity
    "evict": _evict,
    "compact": _compact,
    "tag": _tag,
    "delete_tag": _delete_tag,
    "snapshot": _snapshot,
    "create": _create,
    "save": _save,
    "save_again": _save_again,
    "save_the_same": _save_the_same,
    "save_first": _save_first,
}


def serve() -> None:
    """Fork a process per line of stdin; tell its id at once and its exit status at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["operation"].startswith("save"):  # before the fork: imports take a second
            importlib.import_module("wmtk.runs.checkpoint")
        child = os.fork()
        if child == 0:
            _stopped_child(OPERATIONS[request["operation"]], Path(request["root"]), request["acks"])
        _tell(str(child))
        _tell(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


def _stopped_child(operation: Callable[..., None], root: Path, acks: str) -> None:
    """Stop until the tracer has attached and lets us go on."""
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1))  # PR_SET_PTRACER: by anyone
    descriptor = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        operation(root, lambda text: os.write(descriptor, f"{text}\n".encode()))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


# --- tasks that race each other ---------------------------------------------------------------


def _write(root: Path, first: int, count: int) -> None:
    """Append `count` episodes one by one, telling each number once it is acknowledged."""
    with Dataset.open(root, "a") as dataset:
        for number in range(first, first + count):
            dataset.append(episode(number))
            _tell(str(number))


def _read(root: Path, seed: int, seconds: int) -> None:
    """Read everything again and again; only true data or EvictedError will do."""
    until = time.monotonic() + seconds
    batches = episodes = evicted = 0
    dataset = Dataset.open(root)
    while not len(dataset):
        time.sleep(0.01)
        dataset.refresh()
    sampler = SequenceSampler(Dataset.open(root), batch_size=4, length=3, seed=seed)
    with Prefetcher(sampler, depth=2, threads=2) as prefetcher:
        while time.monotonic() < until:
            dataset.refresh()
            try:
                numbers = [number_of(found) for found in dataset]
                assert len(set(numbers)) == len(numbers), numbers
                episodes += len(numbers)
                number_of(Dataset.open(root)[-1])
            except EvictedError:
                evicted += 1
            for _ in range(3):
                check_batch(next(prefetcher))
                batches += 1
            sampler.refresh()
    _tell(f"{episodes} {batches} {evicted}")


def _follow(root: Path, seconds: int, _: int) -> None:
    """Follow the dataset; numbers must never repeat."""
    seen: set[int] = set()
    until = time.monotonic() + seconds
    for found in Dataset.open(root).follow(poll=0.01, timeout=1.0):
        number = number_of(found)
        assert number not in seen, number
        seen.add(number)
        if time.monotonic() > until:
            break
    _tell(str(len(seen)))


def _tag_often(root: Path, first: int, count: int) -> None:
    """Tag the newest version again and again, deleting every other tag."""
    with Dataset.open(root, "a") as dataset:
        for number in range(first, first + count):
            dataset.refresh()
            try:
                tag = dataset.tag(f"t{number}")
            except EvictedError:
                continue
            with Dataset.open(root, tag=tag.name) as pinned:
                assert len([number_of(found) for found in pinned]) == tag.episodes
            if number % 2:
                dataset.delete_tag(tag.name)
            else:
                _tell(tag.name)


TASKS = {"write": _write, "read": _read, "follow": _follow, "tag": _tag_often}


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        TASKS[sys.argv[2]](Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
