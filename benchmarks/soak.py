"""Memory, files, threads and processes of `wmtk online` over time, with a small replay.

    python benchmarks/soak.py                       ten minutes of Catch, a replay of 5,000 steps
    python benchmarks/soak.py --minutes 60 --async
    python benchmarks/soak.py --markdown docs/benchmarks.md

The run is a process of its own, stopped by SIGTERM at the end: where this one runs in the
background of a script, Ctrl-C is ignored. The resident memory is the sum over
the process and its children, pages that they share counted each time. Slopes are those of a line
through the second half of the samples: what is allocated once, such as caches, is there by then.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from timing import Table, Targets, size, write_markdown

EVERY = 2.0  # seconds between samples
PATIENCE = 120  # seconds in which the run ends after SIGTERM
GROWTH = 5.0  # MB of resident memory from the third quarter to the last, at most
COUNTS = ("files", "threads", "processes")


@dataclass(frozen=True)
class Sample:
    """What a run holds at a time."""

    minute: float
    memory: float  # MB
    files: int
    threads: int
    processes: int
    replay: float  # MB on disk


def take(run: psutil.Process, began: float, out: Path) -> Sample:
    """One sample of a process and its children; those that end meanwhile count as gone."""
    memory = files = threads = processes = 0
    for each in [run, *run.children(recursive=True)]:
        try:
            with each.oneshot():
                found = each.memory_info().rss, each.num_fds(), each.num_threads()
        except psutil.NoSuchProcess:
            continue
        memory, files, threads = (
            a + b for a, b in zip((memory, files, threads), found, strict=True)
        )
        processes += 1
    minute = (time.monotonic() - began) / 60
    return Sample(minute, memory / 1e6, files, threads, processes, _on_disk(out / "replay.zarr"))


def _on_disk(folder: Path) -> float:
    try:
        return size(folder) / 1e6
    except FileNotFoundError:  # a part that was just evicted
        return float("nan")


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[psutil.Process]:
    """A command in the background, terminated at the end."""
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def soak(args: argparse.Namespace, folder: Path) -> list[Sample]:
    out = folder / "run"
    command = [sys.executable, "-m", "wmtk", "online", args.task, "--out", str(out)]
    command += ["--steps", str(10**9), "--preset", "tiny", "--seed", "0"]
    command += [
        "--set",
        f"online.capacity={args.capacity}",
        *(["--async"] if args.background else []),
    ]
    command += [word for setting in args.set for word in ("--set", setting)]
    samples: list[Sample] = []
    with started(command, folder / "log.txt") as run:
        began = time.monotonic()
        while time.monotonic() < began + 60 * args.minutes:
            time.sleep(EVERY)
            if not run.is_running() or run.status() == psutil.STATUS_ZOMBIE:
                sys.exit(f"The run has ended early:\n{(folder / 'log.txt').read_text()[-2000:]}")
            samples.append(take(run, began, out))
    return samples


def slope(samples: Sequence[Sample]) -> Sample:
    """The change of everything per hour, in the second half."""
    values = np.array([astuple(each) for each in samples[len(samples) // 2 :]], float)
    values = values[np.isfinite(values).all(1)]
    hours = values[:, 0] / 60
    return Sample(60.0, *np.polyfit(hours, values[:, 1:], 1)[0].tolist())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--task", default="wmtk/Catch-v0")
    parser.add_argument("--capacity", type=int, default=5000, help="steps of the replay")
    parser.add_argument("--set", action="append", default=[], help="further settings of the run")
    parser.add_argument("--async", dest="background", action="store_true")
    parser.add_argument("--markdown", type=Path, help="put the table into this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wmtk-soak-") as name:
        samples = soak(args, Path(name))
    how = " --async" if args.background else ""
    note = (
        f"`wmtk online {args.task}{how}`, preset tiny, a replay of {args.capacity:,} steps, "
        f"{args.minutes:g} minutes, {len(samples)} samples."
    )
    columns = ("minute", "memory, MB", "open files", "threads", "processes", "replay on disk, MB")
    table = Table("A soak of wmtk online", columns, note)
    for minute in range(1, int(args.minutes) + 1):
        part = [each for each in samples if minute - 1 <= each.minute < minute]
        if part:
            table.add(minute, *_ranges(part))
    rates = slope(samples)
    change = (rates.memory, rates.files, rates.threads, rates.processes, rates.replay)
    table.add("change an hour, second half", *(f"{rate:+.1f}" for rate in change))
    console, targets = Console(), Targets()
    table.show(console)
    for what, unit, most in (("memory", " MB", GROWTH), *((w, "", 0) for w in COUNTS)):
        third, last = (
            float(np.median([getattr(each, what) for each in part]))
            for part in np.array_split(np.array(samples, object), 4)[2:]
        )
        targets.at_most(
            f"{what} in the last quarter, above the one before", last - third, most, unit
        )
    targets.show(console)
    if args.markdown is not None:
        write_markdown(args.markdown, "soak", [targets, table])


def _ranges(samples: Sequence[Sample]) -> list[str]:
    """The least and the largest of everything, in a minute."""
    columns = np.array([astuple(each)[1:] for each in samples], float).T
    least, most = np.nanmin(columns, 1), np.nanmax(columns, 1)
    pairs = zip(least, most, strict=True)
    return [f"{a:.0f}" if round(a) == round(b) else f"{a:.0f}–{b:.0f}" for a, b in pairs]


if __name__ == "__main__":
    main()
