"""Speed and size of wmtk datasets against numpy, zarr-python, Minari and npz episodes.

    python benchmarks/datasets.py            all of it, about 15 minutes
    python benchmarks/datasets.py --quick    the same at a small size, about a minute

Everything is measured in one run, the contenders in turn and in random order, so that the ratios
hold also on a machine that does something else besides.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import tempfile
import time
from importlib import metadata
from pathlib import Path

import frames
import growth
import sampling
import sizes
from rich.console import Console
from timing import Table, Targets, write_markdown

from wmtk.datasets import Dataset

PARTS = ("resident", "streaming", "training", "sizes", "growth")


def machine() -> Table:
    table = Table("Machine", ("what", "which"))
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    table.add("processor", f"{model or platform.processor()}, {os.cpu_count()} cores")
    if hasattr(os, "sysconf"):
        table.add(
            "memory", f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"
        )
    table.add("load before the run", f"{os.getloadavg()[0]:.1f}")
    table.add("Python", platform.python_version())
    for package in ("numpy", "zarr", "numcodecs", "minari", "h5py", "torch", "ale-py"):
        table.add(package, metadata.version(package))
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    default = Path(tempfile.gettempdir()) / "wmtk-benchmarks"
    add("--steps", type=int, default=200_000, help="to sample from (default: 200,000)")
    add("--large", type=int, default=2_000_000, help="of the large dataset (default: 2,000,000)")
    add("--quick", action="store_true", help="6,000 and 30,000 steps, few repetitions")
    add("--only", nargs="+", choices=PARTS, default=PARTS, help="measure only these")
    add("--colors", nargs="+", choices=list(frames.COLORS), default=list(frames.COLORS))
    add("--folder", type=Path, default=default, help=f"for the data (default: {default})")
    add("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    add("--markdown", type=Path, metavar="FILE", help="put the tables into this file")
    found = parser.parse_args()
    if found.quick:
        found.steps, found.large = min(found.steps, 6_000), min(found.large, 30_000)
    return found


def main() -> None:
    args = arguments()
    random.seed(0)
    console = Console(width=None if Console().is_terminal else 160)
    progress = Console(stderr=True)
    began = time.monotonic()
    tables: list[Table] = []
    targets = Targets()
    quick: bool = args.quick

    def show(table: Table) -> None:
        tables.append(table)
        table.show(console)

    def say(what: str) -> None:
        progress.print(f"{time.monotonic() - began:6.0f} s  {what}", highlight=False)

    show(machine())
    played = {}
    sources = {}
    for color in args.colors:
        say(f"{color}: playing, or using what was played")
        played[color] = frames.game_datasets(args.folder, color, args.steps)
        sources[color] = args.folder / f"mixed-{color}-{args.steps}.zarr"
        games = [Dataset.open(path) for path in played[color].values()]
        frames.build(sources[color], color, frames.mixed(games))
    if "resident" in args.only:
        note = "Milliseconds per batch of 50 × 50, median (quartiles)."
        columns = ("frames", "reader", "processor time", "ratio", "by the clock", "ratio ")
        table = Table("Batches from memory", columns, note)
        for color, source in sources.items():
            say(f"{color}: from memory")
            sampling.resident(source, color, 10 if quick else 60, table, targets)
        show(table)
    if "streaming" in args.only:
        for color, source in sources.items():
            say(f"{color}: from disk")
            rounds = 2 if quick else 5
            show(sampling.streaming(source, color, args.folder, rounds, 4, targets))
    if "training" in args.only:
        say("beside training")
        steps = {0.05: 5, 0.2: 2} if quick else {0.05: 60, 0.5: 20, 9.0: 3}
        color = args.colors[-1]
        show(sampling.training(sources[color], color, steps, targets))
    if "sizes" in args.only:
        for color, paths in played.items():
            say(f"{color}: size on disk")
            show(sizes.sizes(paths, color, args.folder, targets))
    if "growth" in args.only:
        color = args.colors[0]
        big = args.folder / f"large-{color}-{args.large}.zarr"
        small = args.folder / f"small-{color}-{args.large // 100}.zarr"
        say(f"building {args.large:,} steps")
        frames.build(small, color, frames.variations(sources[color], args.large // 100))
        frames.build(big, color, frames.variations(sources[color], args.large))
        say("opening and sampling them")
        show(growth.large(big, 3 if quick else 7, 20 if quick else 500, targets))
        say("appending to them")
        count = 8 if quick else 128
        source = sources[color]
        show(growth.appending(small, big, source, count, args.folder, targets))
    say("done")
    targets.show(console)
    tables[1:1] = [targets]
    if args.json:
        args.json.write_text(json.dumps([table.to_json() for table in tables], indent=1) + "\n")
    if args.markdown:
        write_markdown(args.markdown, "datasets", tables)


if __name__ == "__main__":
    main()
