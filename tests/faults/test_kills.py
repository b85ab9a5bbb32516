"""kill −9 at each system call that changes the file system, and at random moments."""

from __future__ import annotations

import logging
import random
import shutil
import time
from pathlib import Path

import pytest

from wmtk.datasets import Dataset

_logger = logging.getLogger(__name__)
EXHAUSTIVE = 40  # kill at each of the first calls, then at every fifth
OLD = list(range(6))


@pytest.fixture
def history(make_dataset, driver) -> Path:
    """Six parts, a tag that alone keeps the first of them, two snapshots, records before them."""
    root = make_dataset(OLD[:3])
    with Dataset.open(root, "a") as dataset:
        dataset._log.snapshot(dataset._state)
        dataset.tag("old")
        for number in OLD[3:]:
            dataset.append(driver.episode(number))
        dataset._log.snapshot(dataset._state)
        dataset.evict(5 * driver.STEPS)
    return root


def test_a_kill_happens_at_the_requested_call(history, tracer, numbers_in) -> None:
    outcome = tracer.kill("append", history, "rename", 1)
    assert outcome == (True, [])
    assert numbers_in(history) == OLD[1:]
    assert not tracer.kill("append", history, "rename", 50).killed
    assert numbers_in(history) == [*OLD[1:], 100, 101]


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation", ["append", "append_evicting", "evict", "compact", "tag", "delete_tag", "snapshot"]
)
def test_a_kill_at_any_call_loses_nothing(
    operation, history, tracer, driver, numbers_in, tmp_path, make_dataset
) -> None:
    if operation == "append_evicting":
        history = make_dataset(OLD[:1], "full.zarr", capacity=len(OLD) * driver.STEPS)
        with Dataset.open(history, "a") as dataset:
            dataset.tag("old")  # keeps the first that is evicted, but not the second
            for number in OLD[1:]:
                dataset.append(driver.episode(number))
    before = numbers_in(history)
    tagged = numbers_in(history, tag="old")
    kills: dict[str, int] = {}
    for call in tracer.calls(operation, shutil.copytree(history, tmp_path / "traced")):
        when = 1
        while True:
            root = shutil.copytree(history, tmp_path / "victim")
            killed, acknowledged = tracer.kill(operation, root, call, when)
            check(operation, root, before, tagged, killed, acknowledged, numbers_in)
            driver.OPERATIONS[operation](root, acknowledged.append)  # the rerun succeeds
            recovered(operation, root, tagged, numbers_in)
            shutil.rmtree(root)
            if not killed:
                break
            kills[call] = kills.get(call, 0) + 1
            when += 1 if when < EXHAUSTIVE else 5
    _logger.info("kills: %s", kills)
    assert sum(kills.values()) >= 5, f"few kills fired: {kills}"


def check(operation, root, before, tagged, killed, acknowledged, numbers_in) -> None:
    """What must hold right after the kill."""
    found = numbers_in(root)
    if operation.startswith("append"):
        new = [n for n in found if n >= 100]
        assert new == [100, 101][: len(new)]
        assert len(new) >= len(acknowledged)
        old = [n for n in found if n < 100]
        assert old == before[len(before) - len(old) :]  # the oldest are evicted first
        assert len(old) == len(before) - (len(new) if operation == "append_evicting" else 0)
    elif operation == "evict":
        assert found in (before, before[-2:])
        assert found == before[-2:] or not acknowledged
    else:
        assert found == before
    names = [tag.name for tag in Dataset.open(root).tags()]
    assert "old" in names or operation == "delete_tag"
    assert "new" in names or operation != "tag" or not acknowledged
    expected = {"old": tagged, "new": before}
    for name in names:
        assert numbers_in(root, tag=name) == expected[name]
    assert killed or acknowledged


def recovered(operation, root, tagged, numbers_in) -> None:
    """What must hold once the operation was run again."""
    if operation.startswith("append"):
        ids = [int(n) for n in Dataset.open(root).episodes.episode]
        assert ids == list(range(ids[0], ids[0] + len(ids)))
    else:
        numbers_in(root)
    if operation != "delete_tag":
        assert numbers_in(root, tag="old") == tagged
    assert not list((root / "trash").glob("p*"))
    assert not list((root / "tmp").glob("p*"))


@pytest.mark.slow
def test_a_kill_while_a_dataset_is_created_leaves_nothing_in_the_way(
    tracer, driver, tmp_path, numbers_in
) -> None:
    kills = 0
    (tmp_path / "trace").mkdir()
    for call in tracer.calls("create", tmp_path / "trace"):
        for when in range(1, 100):
            root = tmp_path / "victim"
            root.mkdir()
            killed, _ = tracer.kill("create", root, call, when)
            if killed and not (root / "created.zarr" / "zarr.json").exists():
                driver.OPERATIONS["create"](root, str)
            assert numbers_in(root / "created.zarr") == []
            with Dataset.open(root / "created.zarr", "a") as dataset:
                dataset.append(driver.episode(1))
            assert numbers_in(root / "created.zarr") == [1]
            shutil.rmtree(root)
            if not killed:
                break
            kills += 1
    assert kills > 20


@pytest.mark.slow
def test_kills_at_random_moments(make_dataset, driver, start, numbers_in) -> None:
    """Two writers and a reader, again and again, on one dataset that grows, evicts, compacts."""
    root = make_dataset([0], capacity=40 * driver.STEPS)
    rng = random.Random(0)
    acknowledged: list[int] = []
    rounds, until = 0, time.monotonic() + 20
    while time.monotonic() < until:
        first = 1000 * (rounds + 1)
        writers = [start("write", root, first + 500 * k, 400) for k in range(2)]
        reader = start("follow", root, 1, 0)
        for writer in writers:  # imports are done once the first is acknowledged
            assert writer.stdout is not None
            acknowledged.append(int(writer.stdout.readline()))
        time.sleep(rng.uniform(0, 0.6))
        for writer in writers:
            writer.kill()
            output, errors = writer.communicate()
            assert writer.returncode == -9, errors
            acknowledged += [int(line) for line in output.split()]
        _, errors = reader.communicate(timeout=20)
        assert reader.returncode == 0, errors
        found = numbers_in(root)
        kept = set(found)
        # What is gone was evicted: per writer the newest acknowledged ones are all there.
        for writer in {n // 500 for n in acknowledged}:
            mine = [n for n in acknowledged if n // 500 == writer]
            alive = [n for n in mine if n in kept]
            assert alive == mine[len(mine) - len(alive) :], (mine, found)
        assert len(found) >= min(len(acknowledged), 40 - 3)
        rounds += 1
    _logger.info("rounds: %s", rounds)
    _logger.info("acknowledged: %s", len(acknowledged))
    assert rounds >= 2
