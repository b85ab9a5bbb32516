"""Documents that lie under right checksums: an error that says so, or exactly the true data."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from wmtk.cli.common.console import emit
from wmtk.cli.data.dataset_commands import _listed
from wmtk.cli.data.dataset_tables import render_info, render_list, render_repair, render_validation
from wmtk.datasets import Dataset, SequenceSampler, find_datasets, repair, summarize
from wmtk.datasets.integrity.validate import validate
from wmtk.datasets.storage import atomic
from wmtk.errors import WmtkError

NUMBERS = list(range(8))
TAGGED = NUMBERS[:5]


@pytest.fixture
def root(make_dataset, driver) -> Path:
    """A compacted part and small ones, an eviction, a tag, two snapshots and records after them."""
    root = make_dataset([100, 0, 1, 2])
    with Dataset.open(root, "a") as dataset:
        dataset.evict(dataset.num_steps - 1)
        dataset.compact()
        dataset._log.snapshot(dataset._state)
        for number in NUMBERS[3:5]:
            dataset.append(driver.episode(number))
        dataset.tag("t")
        dataset._log.snapshot(dataset._state)
        dataset.append([driver.episode(5), driver.episode(6)])
        dataset.append(driver.episode(7))
    return root


# --- forging ----------------------------------------------------------------------------------


def documents(root: Path) -> list[Path]:
    """Every JSON document; those that say most are there more often."""
    files = sorted(path for path in root.rglob("*.json") if path.is_file())
    header = root / "zarr.json"
    sealed = [p for p in files if p.parent.name in {"log", "tags"} and p.name != "zarr.json"]
    parts = [path for path in files if path.parent.parent == root / "parts"]
    return files + 6 * [header] + 4 * sealed + 4 * parts


def seal(root: Path, path: Path, document: Any) -> None:
    """Write a document and make the checksums of all that depends on it right."""
    if not isinstance(document, dict):
        path.write_text(json.dumps(document))
        return
    inner = path.relative_to(root).parts
    if path == root / "zarr.json":
        header = atomic.attributes_in(document)
        if isinstance(header, dict):
            header.pop("checksum", None)
            document["attributes"]["wmtk"] = atomic.with_checksum(header)
    elif inner[0] in {"log", "tags"} and path.name != "zarr.json":
        document.pop("checksum", None)
        document = atomic.with_checksum(document)
    data = json.dumps(document).encode()
    path.write_bytes(data)
    if inner[0] == "parts" and len(inner) == 3:
        _list_digest(root, inner[1], hashlib.sha256(data).hexdigest())
    elif inner[0] == "parts" and len(inner) > 3:
        outer = root / "parts" / inner[1] / "zarr.json"
        attributes = json.loads(outer.read_bytes())
        record = attributes["attributes"]["wmtk"]["arrays"].get("/".join(inner[2:-1]))
        if record is not None:
            record["metadata_crc32c"] = google_crc32c.value(data)
            seal(root, outer, attributes)


def _list_digest(root: Path, part: str, digest: str) -> None:
    for path in [*(root / "log").glob("0*.json"), root / "tags" / "t.json"]:
        document = json.loads(path.read_bytes())
        for entry in document.get("parts", document.get("add")):
            if entry["part"] == part:
                entry["digest"] = digest
        document.pop("checksum")
        path.write_bytes(atomic.json_bytes(atomic.with_checksum(document)))


# --- judging ----------------------------------------------------------------------------------


def content(dataset: Dataset) -> list[Any]:
    """All that a reader gets; seeds and provenance are not bound to the rest."""
    episodes = [(e.id, e.terminated, e.truncated) for e in dataset]
    assert [dataset[n].id for n in range(len(dataset))] == [name for name, *_ in episodes]
    table = dataset.episodes
    columns = [table.length, table.total_reward, table.end, table.id]
    return [*episodes, *zip(*(column.tolist() for column in columns), strict=True)]


def attempts(root: Path, driver: Any) -> dict[str, Callable[[], Any]]:
    """Everything that can be done with a dataset without changing it."""

    def read(**options: Any) -> list[Any]:
        with Dataset.open(root, **options) as dataset:
            return content(dataset)

    def sample() -> None:
        with Dataset.open(root) as dataset:
            for memory in (0, 2**20):
                sampler = SequenceSampler(dataset, batch_size=8, length=3, memory=memory)
                driver.check_batch(sampler.sample())

    def info() -> None:
        with Dataset.open(root) as dataset:
            summary = summarize(dataset)
            emit(summary, json=False, render=render_info)
            emit(summary, json=True, render=render_info)

    def listing() -> None:
        rows = [_listed(path) for path in find_datasets(root.parent)]
        emit(rows, json=False, render=lambda rows: render_list(rows, root.parent))
        emit(rows, json=True, render=lambda rows: "")

    return {
        "read": read,
        "tag": lambda: read(tag="t"),
        "sample": sample,
        "info": info,
        "list": listing,
        "validate": lambda: emit(validate(root), json=False, render=render_validation),
        "plan": lambda: emit(repair(root, dry_run=True), json=False, render=render_repair),
    }


def judge(root: Path, driver: Any, truth: dict[str, Any]) -> dict[str, str]:
    """The outcome of each attempt: true data or a WmtkError; anything else fails."""
    outcomes = {}
    for name, attempt in attempts(root, driver).items():
        try:
            found = attempt()
        except WmtkError:
            outcomes[name] = "error"
        else:
            assert found == truth.get(name), f"{name}: a wrong answer"
            outcomes[name] = "truth"
    return outcomes


def repair_and_check(root: Path, driver: Any) -> None:
    """Repair: no episode that is not true is there after it, and none is lost in silence."""
    try:
        report = repair(root)
        with Dataset.open(root) as dataset:
            found = [episode.id for episode in dataset]
    except WmtkError:
        return
    true = [driver.episode(number).id for number in NUMBERS]
    assert set(found) <= set(true), "an episode that never was"
    missing = [name for name in true if name not in found]
    assert len(missing) <= len(report.lost), (
        "repair: lost without a report"
    )  # forged ids are reported
    assert not validate(root).errors, validate(root).errors


def sweep(root: Path, driver: Any, mutated: Any, seed: int, count: int) -> dict[str, int]:
    rng = random.Random(seed)
    before = {name: attempt() for name, attempt in attempts(root, driver).items()}
    pristine = shutil.copytree(root, root.parent / ".pristine")
    counts = {"error": 0, "truth": 0}
    for number in range(count):
        raw = rng.random() < 0.2
        path = rng.choice(documents(root))
        document, what = mutated(json.loads(path.read_bytes()), rng, sealable=not raw)
        try:
            if raw:
                path.write_text(json.dumps(document))
            else:
                seal(root, path, document)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        try:
            outcomes = judge(root, driver, before)
            repair_and_check(root, driver)
        except BaseException as error:
            error.add_note(f"mutation {number} of seed {seed}: {path.relative_to(root)}: {what}")
            raise
        finally:
            shutil.rmtree(root)
            shutil.copytree(pristine, root)
        counts[outcomes["read"]] += 1
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_no_forgery_is_read_wrongly_or_ends_unexpectedly(root, driver, mutations, seed) -> None:
    counts = sweep(root, driver, mutations.mutated, seed, 30)
    assert counts["error"] > 5, counts
    assert counts["truth"] > 2, counts
