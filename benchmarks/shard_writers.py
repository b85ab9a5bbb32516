"""Writing shards directly against writing them with zarr-python: alone, and within `wmtk collect`.

    python benchmarks/shard_writers.py [--rounds 7]

Both writers produce the same bytes. They take turns in random order; times are medians.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import google_crc32c
import numpy as np
from rich.console import Console
from timing import Table, times

from wmtk.datasets.storage import part
from wmtk.datasets.storage.atomic import write_file
from wmtk.datasets.storage.shard import (
    APPEND_LEVEL,
    COMPACT_LEVEL,
    ArrayRecord,
    chunk_rows,
    data_file,
    write_array,
)
from wmtk.spaces import ArraySpec

WRITERS = ("direct", "zarr")
TASKS = {"atari_pong": 6_000, "CartPole-v1": 20_000, "wmtk/Catch-v0": 10_000}  # steps
ROWS = 800  # of an episode


def write_with_zarr(
    folder: Path, columns: Sequence[Any], spec: ArraySpec, level: int
) -> ArrayRecord:
    """`write_array` with zarr-python, which takes all rows of a shard at once."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec
    from zarr.storage import MemoryStore

    rows = np.concatenate([np.asarray(column) for column in columns])
    chunk = chunk_rows(spec, len(rows))
    files: dict[str, Any] = {}
    array = zarr.create_array(
        MemoryStore(files),
        shape=rows.shape,
        dtype=spec.dtype,
        chunks=(chunk, *spec.shape),
        shards=(-(-len(rows) // chunk) * chunk, *spec.shape),
        filters=None,
        compressors=[ZstdCodec(level=level, checksum=False), Crc32cCodec()],
        fill_value=0,
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=["row", *[None] * len(spec.shape)],
        config={"write_empty_chunks": True},
    )
    array[...] = rows
    data, metadata = files[data_file(spec)].to_bytes(), files["zarr.json"].to_bytes()
    count = -(-len(rows) // chunk)
    index = np.frombuffer(data[-16 * count - 4 : -4], "<u8").reshape(count, 2).tolist()
    write_file(folder / data_file(spec), data, durably=False)
    write_file(folder / "zarr.json", metadata, durably=False)
    return ArrayRecord(
        rows=len(rows),
        chunk_rows=chunk,
        bytes=len(data),
        crc32c=google_crc32c.value(data),
        metadata_crc32c=google_crc32c.value(metadata),
        chunks=tuple(int.from_bytes(data[o + n - 4 : o + n], "little") for o, n in index),
    )


def arrays() -> dict[str, tuple[Any, ArraySpec]]:
    """Arrays of one episode: frames with a moving square, a vector, rewards, flags."""
    rng = np.random.default_rng(0)
    found: dict[str, tuple[Any, ArraySpec]] = {}
    for name, channels in (("gray frames", 1), ("rgb frames", 3)):
        background = rng.integers(0, 4, (64, 64, channels), np.uint8) * 60
        frames = np.repeat(background[None], ROWS, 0)
        for t, frame in enumerate(frames):
            x, y = t * 3 % 56, t * 5 % 56
            frame[x : x + 8, y : y + 8] = rng.integers(0, 255, (8, 8, channels), np.uint8)
        found[name] = frames, ArraySpec("box", frames.shape[1:], "uint8", 0, 255)
    found["vector of 24"] = rng.normal(size=(ROWS, 24)), ArraySpec("box", (24,), "float64")
    found["rewards"] = rng.normal(size=ROWS), ArraySpec("box", (), "float64")
    found["flags"] = np.zeros(ROWS, bool), ArraySpec("box", (), "bool", 0, 1)
    return found


def alone(rounds: int) -> Table:
    writers = {"direct": write_array, "zarr": write_with_zarr}
    columns = ("array", "level", "direct, ms", "zarr-python, ms", "ratio")
    table = Table(f"Writing an array of {ROWS} rows", columns, "Processor time, median.")
    for level in (APPEND_LEVEL, COMPACT_LEVEL):
        for name, (rows, spec) in arrays().items():
            spent: dict[str, list[float]] = {writer: [] for writer in WRITERS}
            records = {}
            for _ in range(3 * rounds):
                for writer in random.sample(WRITERS, 2):
                    with tempfile.TemporaryDirectory() as folder:
                        begun = time.process_time()
                        records[writer] = writers[writer](Path(folder), [rows], spec, level)
                        spent[writer].append(time.process_time() - begun)
            assert records["direct"].crc32c == records["zarr"].crc32c, name
            direct, zarr = (1000 * float(np.median(spent[writer])) for writer in WRITERS)
            table.add(name, level, f"{direct:.2f}", f"{zarr:.2f}", f"{zarr / direct:.1f}")
    return table


def within_collect(rounds: int) -> Table:
    columns = ("task", "steps", "rate", "whole command", "processor time")
    note = "zarr-python against writing directly: medians of the ratios; rate above 1 is faster."
    table = Table("wmtk collect with either writer", columns, note)
    for task, steps in TASKS.items():
        runs = []
        for number in range(rounds + 1):
            run = {writer: _collect(writer, task, steps) for writer in random.sample(WRITERS, 2)}
            if number:  # the first one warms up
                runs.append([z / d for z, d in zip(run["zarr"], run["direct"], strict=True)])
        playing, clock, processor = np.median(runs, axis=0)
        table.add(task, f"{steps:,}", f"{1 / playing:.3f}", f"{clock:.3f}", f"{processor:.3f}")
    return table


def _collect(writer: str, task: str, steps: int) -> tuple[float, float, float]:
    """Seconds of playing and writing, of the whole command, and of all its processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--as", writer, "collect", task]
        command += ["--steps", str(steps), "--out", f"{folder}/d.zarr", "--seed", "0", "--json"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        results: list[subprocess.CompletedProcess[str]] = []
        clock, _ = times(
            lambda: results.append(
                subprocess.run(command, capture_output=True, text=True, check=True)
            )
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return json.loads(results[0].stdout)["seconds"], clock, spent


def main() -> None:
    if sys.argv[1:2] == ["--as"]:  # a command of wmtk with this writer
        from wmtk.cli.main import main as wmtk

        writer = sys.argv[2]
        del sys.argv[1:3]
        with mock.patch.object(
            part, "write_array", write_with_zarr if writer == "zarr" else write_array
        ):
            wmtk()
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=7, help="runs of each writer (default: 7)")
    args = parser.parse_args()
    random.seed(0)
    for table in (alone(args.rounds), within_collect(args.rounds)):
        table.show(Console(width=None if Console().is_terminal else 120))


if __name__ == "__main__":
    main()
