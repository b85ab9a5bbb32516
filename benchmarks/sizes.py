"""What the same episodes take on disk in each format."""

from __future__ import annotations

import tempfile
from pathlib import Path

from peers import Minari, Npz
from timing import Table, Targets, blocks, megabytes, size

from wmtk.datasets import Dataset
from wmtk.datasets.storage.header import make_folders
from wmtk.datasets.storage.part import new_part_id, write_part
from wmtk.datasets.storage.shard import APPEND_LEVEL


def sizes(paths: dict[str, Path], color: str, folder: Path, targets: Targets) -> Table:
    """Per game: ours compacted and as appended, npz episodes, Minari's HDF5 without JPEG."""
    columns = (
        "game",
        "raw",
        "wmtk",
        "as appended",
        "npz",
        "Minari",
        "raw / wmtk",
        "npz / wmtk",
        "Minari / wmtk",
    )
    note = "MB of all files; in brackets what the file system sets aside for them."
    table = Table(f"Size on disk, {color}", columns, note)
    total: list[tuple[int, int]] = []
    raw_total = 0
    for game, path in paths.items():
        dataset = Dataset.open(path)
        found = [_both(path), _appended(dataset)]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            for kind in (Npz, Minari):
                peer = kind(path, Path(scratch), 1)
                peer.store()
                found.append(_both(peer.path))
        _add(table, game, dataset.raw_bytes, found)
        raw_total += dataset.raw_bytes
        total = [
            (a + c, b + d) for (a, b), (c, d) in zip(total or [(0, 0)] * 4, found, strict=True)
        ]
    _add(table, "all", raw_total, total)
    ours, _, npz, minari = (apparent for apparent, _ in total)
    targets.at_least(f"{color}: smaller than npz episodes", npz / ours, 1.2)
    targets.at_least(f"{color}: smaller than Minari's HDF5", minari / ours, 20)
    return table


def _both(path: Path) -> tuple[int, int]:
    return size(path), blocks(path)


def _appended(dataset: Dataset) -> tuple[int, int]:
    """Each episode as a part of its own, as `append` writes it."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make_folders(root)
        for number, episode in enumerate(dataset):
            write_part(root, new_part_id(number), dataset.schema, [episode], APPEND_LEVEL)
        return _both(root)


def _add(table: Table, name: str, raw: int, found: list[tuple[int, int]]) -> None:
    ours, _, npz, minari = (apparent for apparent, _ in found)
    cells = [f"{megabytes(apparent)} ({megabytes(taken)})" for apparent, taken in found]
    ratios = [f"{other / ours:.2f}×" for other in (raw, npz, minari)]
    table.add(name, megabytes(raw), *cells, *ratios)
