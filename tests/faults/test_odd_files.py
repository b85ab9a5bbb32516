"""Pipes, folders, links and sparse files in the place of files: refused at once."""

from __future__ import annotations

import os
import shutil
import signal
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from wmtk.cli.data.dataset_commands import _listed
from wmtk.datasets import Dataset, find_datasets, repair, summarize
from wmtk.datasets.convert import FORMATS, export_dataset, import_dataset
from wmtk.datasets.integrity.validate import validate
from wmtk.errors import ConversionError, WmtkError

GIGABYTES = 3 * 2**30


@pytest.fixture(autouse=True)
def in_time_and_memory() -> Iterator[None]:
    """Nothing here may wait for a pipe or read a file because of its size."""

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert peak < 200e6


def put(kind: str, path: Path) -> None:
    """Replace a file or folder by something odd."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    else:
        with path.open("wb") as file:
            file.truncate(GIGABYTES)


def read(root: Path) -> None:
    with Dataset.open(root) as dataset:
        list(dataset)
        summarize(dataset)


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "link", "sparse"])
@pytest.mark.parametrize(
    "name",
    [
        "zarr.json",
        "log",
        "log/00000002.json",
        "log/zarr.json",
        "parts",
        "parts/p*1-*",
        "parts/p*1-*/zarr.json",
        "parts/p*1-*/obs",
        "parts/p*1-*/obs/zarr.json",
        "parts/p*1-*/action/c.0",
        "parts/p*1-*/action/zarr.json",
        "tags/t.json",
        "tmp",
    ],
)
def test_a_dataset_with_an_odd_file(make_dataset, name, kind) -> None:
    root = make_dataset(range(2))
    with Dataset.open(root, "a") as dataset:
        dataset.tag("t")
    [path] = root.glob(name)
    put(kind, path)
    assert [_listed(found).path for found in find_datasets(root.parent)] == [root]
    for attempt in (
        lambda: read(root),
        lambda: validate(root),
        lambda: repair(root, dry_run=True),
        lambda: repair(root),
    ):
        try:
            attempt()
        except WmtkError as error:
            raised = error
            assert str(root) in raised.message


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "link"])
@pytest.mark.parametrize("name", FORMATS)
def test_an_import_of_an_odd_file(make_dataset, tmp_path, name, kind) -> None:
    root = make_dataset(range(2))
    source = tmp_path / "source"
    with Dataset.open(root) as dataset:
        export_dataset(dataset, source, name)
    files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
    for number, path in enumerate(files):
        data = path.read_bytes()
        put(kind, path)
        target = tmp_path / f"target{number}"
        try:
            import_dataset(source, target, format=name)
        except ConversionError:
            assert not target.exists()
        else:
            unread = path.name == ".zattrs" and path.parent != source  # of groups below the root
            assert unread or path.name in {".zgroup", "wmtk.json"}, path
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
        path.write_bytes(data)


def test_an_npz_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path) -> None:
    source = tmp_path / "npz"
    source.mkdir()
    rows = 50_000
    np.savez_compressed(
        source / "0-0-1.npz",
        image=np.zeros((rows, 48, 48, 1), np.uint8),
        action=np.zeros((rows, 2), np.float32),
        reward=np.zeros(rows, np.float32),
    )
    tracemalloc.reset_peak()
    with pytest.raises(ConversionError, match=r"archive in .* declares 115,800,\d+ bytes"):
        import_dataset(source, tmp_path / "target", format="dreamer-npz")


def test_damaged_and_odd_datasets_hide_no_other(make_dataset, tmp_path, run_wmtk) -> None:
    for number in range(4):
        make_dataset(range(2), name=f"d{number}.zarr")
    put("pipe", tmp_path / "d0.zarr" / "zarr.json")
    put("sparse", next((tmp_path / "d1.zarr").glob("log/00000001.json")))
    strange = os.fsdecode(b"\xff\xfe.zarr")
    (tmp_path / "d2.zarr").rename(tmp_path / strange)
    os.mkfifo(tmp_path / "pipe")
    for options in ([], ["--json"]):
        result = run_wmtk("data", "list", tmp_path, *options)
        assert result.exit_code == 0, result.stderr
        for name in ("d0.zarr", "d1.zarr", "d3.zarr", ".zarr"):
            assert name in result.stdout
