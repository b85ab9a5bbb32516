"""Speed and memory of `wmtk collect` on Atari Pong, against bare environments and against Minari.

    python benchmarks/collect.py            all of it, about 10 minutes
    python benchmarks/collect.py --quick    the same at a small size, about a minute

Everything is measured in one run, the contenders in turn and in random order, so that the ratios
hold also on a machine that does something else besides. Processor time, of all processes of a
contender, is given as well: it depends less on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil
from players import TASK, Measured, bare, minari, ours, vector
from rich.console import Console
from timing import Table, Targets, write_markdown

REPEAT = 4  # frames per step
ENVS = (1, 2, 4)
PARTS = ("speed", "memory")


Contender = Callable[[int, Path], Measured]
MINARI = {"Minari": "rgb", "Minari, gray screens": "grayscale"}


Key = tuple[str, int]  # a contender and its number of environments
Results = dict[int, dict[Key, list[Measured]]]  # by group


def contenders() -> dict[int, dict[Key, Contender]]:
    """In groups that run right after one another, so that the machine is as busy for each."""
    groups: dict[int, dict[Key, Contender]] = {}
    for envs in ENVS:
        groups[envs] = {
            ("wmtk", envs): partial(ours, envs),
            ("bare", envs): partial(bare, envs),
            ("AsyncVectorEnv", envs): partial(vector, envs),
        }
    for group in (min(ENVS), max(ENVS)):
        for name, obs_type in MINARI.items():
            groups[group][name, 1] = partial(minari, obs_type)
    return groups


def speed(
    steps: int, rounds: int, folder: Path, targets: Targets, say: Callable[[str], None]
) -> Table:
    groups = contenders()
    results: Results = {group: {key: [] for key in runs} for group, runs in groups.items()}
    for number in range(rounds + 1):
        for group in random.sample(list(groups), len(groups)):
            for key in random.sample(list(groups[group]), len(groups[group])):
                say(f"round {number} of {rounds}: {key[0]}, K = {key[1]}")
                count = min(500, steps) if number == 0 else steps  # the first round warms up
                measured = groups[group][key](count * key[1], folder)
                if number > 0:
                    results[group][key].append(measured)
    _judge(results, targets)
    return _rates(results, steps, rounds)


def _rates(results: Results, steps: int, rounds: int) -> Table:
    note = (
        f"Medians of {rounds} runs of {steps:,} steps per environment (of {REPEAT} frames each). "
        "Rates are agent steps per second, from the moment all environments are ready until "
        "everything is on disk; in brackets, while all environments play. CPU seconds are those of "
        "all processes."
    )
    columns = (
        "what", "K", "steps/s", "frames/s", "steps per CPU second", "start, s",
        "steps/s with start", "bytes per step",
    )  # fmt: skip
    table = Table("Collecting Pong at random", columns, note)
    for group, found in results.items():
        for (name, envs), runs in found.items():
            if name in MINARI and group != min(ENVS):
                continue
            stored = _median([run.stored / run.steps for run in runs])
            playing = _median([run.playing for run in runs])
            rate = _median([run.rate for run in runs])
            table.add(
                name,
                envs,
                f"{rate:,.0f}" + (f" ({playing:,.0f})" if playing else ""),
                f"{REPEAT * rate:,.0f}",
                f"{_median([run.cpu_rate for run in runs]):,.0f}",
                f"{_median([run.startup for run in runs]):.1f}",
                f"{_median([run.total for run in runs]):,.0f}",
                f"{stored:,.0f}" if stored else "–",
            )
    return table


def _judge(results: Results, targets: Targets) -> None:
    def ratio(group: int, other: Key, by: Callable[[Measured], float]) -> float:
        runs = zip(results[group]["wmtk", group], results[group][other], strict=True)
        return _median([by(mine) / by(theirs) for mine, theirs in runs])

    measures: dict[str, Callable[[Measured], float]] = {
        "": lambda run: run.rate,
        ", by CPU time": lambda run: run.cpu_rate,
    }
    for name in ("bare", "AsyncVectorEnv"):
        for envs in ENVS:
            for how, by in measures.items():
                what = f"rate against {name}, K = {envs}{how}"
                targets.at_least(what, ratio(envs, (name, envs), by), 0.8)
    for name in MINARI:
        few, many = min(ENVS), max(ENVS)
        measured = ratio(many, (name, 1), lambda run: run.rate)
        targets.at_least(f"rate at K = {many} against {name}", measured, 3)
        for how, by in measures.items():
            found = f"{ratio(few, (name, 1), by):.3g}×"
            targets.add(f"rate at K = {few} against {name}{how}", "–", found, "–")


def _median(values: list[float]) -> float:
    return float(np.median(values))


def memory(lengths: list[int], folder: Path, targets: Targets, say: Callable[[str], None]) -> Table:
    """The most memory that `wmtk collect` and its workers hold, by the length of the run."""
    note = (
        "Resident memory of the command and its workers, sampled every 20 ms, K = 4. The highest "
        "is a matter of chance too: it needs several processes to hold long episodes at once."
    )
    columns = ("steps", "median of the second half, MB", "highest, MB")
    table = Table("Memory by length of the run", columns, note)
    typical, highest = [], []
    for steps in lengths:
        say(f"memory, {steps:,} steps")
        samples = _sampled(steps, folder / "memory.zarr")
        typical.append(float(np.median(samples[len(samples) // 2 :])))
        highest.append(max(samples))
        table.add(f"{steps:,}", f"{typical[-1] / 1e6:.0f}", f"{highest[-1] / 1e6:.0f}")
    against = f"{lengths[-1]:,} against {lengths[-2]:,} steps"
    targets.at_most(f"median memory, {against}", typical[-1] / typical[-2], 1.1)
    targets.at_most(f"highest memory, {against}", highest[-1] / highest[-2], 1.1)
    return table


def _sampled(steps: int, path: Path) -> list[int]:
    shutil.rmtree(path, ignore_errors=True)
    command = [sys.executable, "-m", "wmtk", "collect", TASK, "--out", str(path), "--seed", "0"]
    samples = [0]
    with subprocess.Popen(
        [*command, "--steps", str(steps), "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        process = psutil.Process(running.pid)
        while running.poll() is None:
            try:
                family = [process, *process.children(recursive=True)]
                samples.append(sum(member.memory_info().rss for member in family))
            except psutil.NoSuchProcess:
                continue
            time.sleep(0.02)
    assert running.returncode == 0, running.returncode
    shutil.rmtree(path)
    return samples


# --- the command ------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--steps", type=int, help="per environment and run (default: 3,000)")
    add("--rounds", type=int, help="runs of each contender (default: 5)")
    add("--lengths", type=int, nargs="+", help="of runs whose memory is measured")
    add("--quick", action="store_true", help="small and few, to see that it runs")
    add("--only", nargs="+", choices=PARTS, default=PARTS, help="measure only these")
    add("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    add("--markdown", type=Path, metavar="FILE", help="put the tables into this file")
    found = parser.parse_args()
    found.steps = found.steps or (300 if found.quick else 3_000)
    found.rounds = found.rounds or (1 if found.quick else 5)
    found.lengths = found.lengths or ([1_000, 2_000] if found.quick else [5_000, 20_000, 60_000])
    return found


def main() -> None:
    args = arguments()
    random.seed(0)
    console = Console(width=None if Console().is_terminal else 160)
    progress = Console(stderr=True)
    began = time.monotonic()
    targets = Targets()

    def say(what: str) -> None:
        progress.print(f"{time.monotonic() - began:6.0f} s  {what}", highlight=False)

    packages = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("ale-py", "gymnasium", "minari")
    )
    targets.note = f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}; {packages}."
    tables: list[Table] = [targets]
    with tempfile.TemporaryDirectory(prefix="wmtk-collect-") as name:
        if "speed" in args.only:
            tables.append(speed(args.steps, args.rounds, Path(name), targets, say))
        if "memory" in args.only:
            tables.append(memory(args.lengths, Path(name), targets, say))
    for table in tables:
        table.show(console)
    if args.json:
        args.json.write_text(json.dumps([table.to_json() for table in tables], indent=1) + "\n")
    if args.markdown:
        write_markdown(args.markdown, "collecting", tables)


if __name__ == "__main__":
    main()
