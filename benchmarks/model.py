"""Speed and memory of updates against sheeprl and the original dreamerv2.

    python benchmarks/model.py                      all, half an hour, and 3 GB to install once
    python benchmarks/model.py --quick              the same at a small size, about 3 minutes
    python benchmarks/model.py --only full16 full50 with behavior

`model16` and `model50` are the world model's update alone; in `full16` and `full50` that of actor
and critic follows, with 15 imagined steps from every state of the batch, and Reinforce.

One update is forward, backward, clipping and Adam, at the sizes of the paper's Atari agent: 64 × 64
gray pixels, 18 actions, 32 × 32 latents, 600 deterministic and hidden units, convolutions of depth
48, heads of 4 × 400 with one for the discount. Every contender has a process of its own, gets the
same batch and the same number of threads, warms up, and then waits for its turn: in each round all
of them make one update, in random order, so that the ratios hold also on a machine that does
something else besides.

The peers run their own models and their own training code, with their own settings for Atari. That
it is the same job shows in the number of parameters and in the first loss, which are in the tables.
What differs:

- Both peers also draw a sample of the prior at every step, which nothing uses.
- All compute the entropies of prior and posterior for their logs; ours the codes' perplexity too.
- The original starts from the state in which it left the last batch. Here all windows begin an
  episode, so that every contender starts from zeros. It squashes rewards by tanh.
- As installed, ours lets encoders, decoders and heads compute in bfloat16 where the processor has
  instructions for that. There it takes part a second time, in 32 bits. The peers do everything in
  32 bits; the original's default of 16 is for graphics processors.
- sheeprl converts frames to floats when it draws them, which is not measured; ours and the original
  do so within the update.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import model_batch
import numpy as np
from model_batch import Shape
from model_contender import Contender, Turn
from model_venvs import Peer, interpreter, peers
from rich.console import Console
from timing import Spread, Table, Targets, write_markdown

OURS, MACHINE = "wmtk", "machine"
IN_FULL = "wmtk float32"  # where that is not what is installed
FASTER = {  # than a peer, at least so many times
    "model16": {"sheeprl": 1.8, "dreamerv2": 1.5},
    "model50": {"sheeprl": 2.4, "dreamerv2": 1.6},
    "full16": {"sheeprl": 1.7, "dreamerv2": 1.5},
    "full50": {"sheeprl": 2.6, "dreamerv2": 1.5},
}
FASTER_BEHAVIOR = {"full50": {"sheeprl": 2.8, "dreamerv2": 1.3}}
LARGEST = {"full50": 4.5}  # peak memory in GB, at most
LEANER = {"model50": {"sheeprl": 75}}  # peak memory, at most so many per cent of a peer's
FULL_RATE = 20  # updates of model and behavior a second, at least, of the preset tiny
PARTS = (*FASTER, "tiny")
POLICY = "wmtk.training.policy_trainer"
RATES = ("product", "convolution")  # that run_machine.py measures

Round = dict[str, Turn]  # by contender
Say = Callable[[str], None]


def at_paper_size(part: str, args: argparse.Namespace, targets: Targets, say: Say) -> Table:
    """Updates at the paper's size, ours and the peers'."""
    stage, B, L = part[:-2], int(part[-2:]), 50
    shape = Shape(max(2, B // 8), 8, 18) if args.quick else Shape(B, L, 18)
    with tempfile.TemporaryDirectory(prefix="wmtk-model-") as name, ExitStack() as stack:
        folder = Path(name)
        batch = model_batch.write(folder / "batch.npz", shape)

        def start(name: str, python: str | Path, script: str, *options: object) -> Contender:
            say(f"{shape}: {name} gets ready")
            setting = {"folder": folder, "threads": args.threads, "warmup": args.warmup}
            return stack.enter_context(Contender(name, python, script, batch, *options, **setting))

        staged, ours = ("--stage", stage), ("--preset", "atari")
        running = [start(OURS, sys.executable, "run_wmtk.py", *ours, *staged)]
        if running[0].about["precision"] != "float32":
            options = (*ours, *staged, "--precision", "float32")
            running.append(start(IN_FULL, sys.executable, "run_wmtk.py", *options))
        for peer in args.peers:
            running.append(start(peer.name, args.pythons[peer.name], peer.script, *staged))
        if stage == "model":
            running.append(start(MACHINE, sys.executable, "run_machine.py", *ours))
        rounds = in_turns(running, args.rounds, str(shape), say)
        about = {contender.name: contender.about for contender in running}
    _judge(part, shape, rounds, targets)
    compared = _compared if stage == "model" else _compared_in_full
    return compared(shape, rounds, about, args.threads)


def in_turns(running: Sequence[Contender], rounds: int, what: str, say: Say) -> list[Round]:
    """In every round a turn for each, in random order; the first round is not counted."""
    found: list[Round] = []
    for number in range(rounds + 1):
        say(f"{what}: round {number} of {rounds}")
        turns = {each.name: each.turn() for each in random.sample(running, len(running))}
        found.append({each.name: turns[each.name] for each in running})
    return found[1:]


def _judge(part: str, shape: Shape, rounds: list[Round], targets: Targets) -> None:
    for peer, least in FASTER[part].items():
        if peer in rounds[0]:
            faster = _ratio(rounds, peer, lambda turn: turn.seconds)
            targets.at_least(f"{part}, {shape}: faster than {peer}", faster, least)
    for peer, least in FASTER_BEHAVIOR.get(part, {}).items():
        if peer in rounds[0]:
            faster = _ratio(rounds, peer, _behavior)
            targets.at_least(f"{part}, behavior: faster than {peer}", faster, least)
    if (most := LARGEST.get(part)) is not None:
        peak = max(each[OURS].peak for each in rounds) / 1e9
        targets.at_most(f"{part}, {shape}: peak memory", peak, most, " GB")
    for peer, most in LEANER.get(part, {}).items():
        if peer in rounds[0]:
            share = 100 / _ratio(rounds[-1:], peer, lambda turn: turn.peak)
            targets.at_most(f"{shape}: peak memory against {peer}", share, most, "%")


def _behavior(turn: Turn) -> float:
    return turn.extra["behavior"]


def _ratio(rounds: list[Round], other: str, by: Callable[[Turn], float]) -> float:
    """How many times ours another is, as the median over the rounds."""
    return _median([by(each[other]) / by(each[OURS]) for each in rounds])


def _compared(
    shape: Shape, rounds: list[Round], about: Mapping[str, Mapping[str, Any]], threads: int
) -> Table:
    work = about[MACHINE]["operations"]
    rates = {key: [each[MACHINE].extra[key] for each in rounds] for key in RATES}
    product, convolution = (_median(rates[key]) / 1e9 for key in RATES)
    waited = max(turn.waited for each in rounds for turn in each.values())
    note = (
        f"{threads} threads, {len(rounds)} rounds. Seconds of an update, median (quartiles); the "
        "ratio is the median over the rounds. Of product, of convolution: the rate at which the "
        f"{work / 1e9:,.0f} billion operations of an update of ours were done, as a share of what "
        f"the machine did in the same rounds in a large matrix product ({product:.0f} GFLOP/s) and "
        f"in a convolution with its gradients ({convolution:.0f} GFLOP/s), both in float32. Start: "
        "until it is warm, imports left out. While others had their turn, no process used more "
        f"than {1000 * waited:.0f} ms of processor time."
    )
    columns = (
        "what", "seconds", "ratio", "processor, s", "peak memory, MB", "of product",
        "of convolution", "parameters", "first loss", "start, s",
    )  # fmt: skip
    table = Table(f"The world model's update, {shape}", columns, note)
    for name in rounds[0]:
        if name == MACHINE:
            continue
        turns = [each[name] for each in rounds]
        done = [work / turn.seconds for turn in turns]
        shares = [np.median(np.divide(done, rates[key])) for key in RATES]
        table.add(
            _described(about[name]),
            _seconds([turn.seconds for turn in turns]),
            f"{_ratio(rounds, name, lambda turn: turn.seconds):.2f}×",
            f"{_median([turn.cpu for turn in turns]):.2f}",
            f"{max(turn.peak for turn in turns) / 1e6:,.0f}",
            *(f"{share:.0%}" for share in shares),
            f"{about[name]['parameters']:,}",
            f"{about[name]['first']['loss']:,.1f}",
            f"{about[name]['start']:.0f}",
        )
    return table


def _compared_in_full(
    shape: Shape, rounds: list[Round], about: Mapping[str, Mapping[str, Any]], threads: int
) -> Table:
    waited = max(turn.waited for each in rounds for turn in each.values())
    note = (
        f"{threads} threads, {len(rounds)} rounds, {shape.B * shape.L:,} starts, 15 "
        "imagined steps from each. Seconds of an update of the world model, actor and critic, "
        "median (quartiles); the ratios are medians over the rounds. While others had their turn, "
        f"no process used more than {1000 * waited:.0f} ms of processor time."
    )
    columns = (
        "what", "seconds", "ratio", "of it behavior", "its ratio", "processor, s",
        "peak memory, MB", "start, s",
    )  # fmt: skip
    table = Table(f"The full update, {shape}", columns, note)
    for name in rounds[0]:
        turns = [each[name] for each in rounds]
        table.add(
            _described(about[name]),
            _seconds([turn.seconds for turn in turns]),
            f"{_ratio(rounds, name, lambda turn: turn.seconds):.2f}×",
            _seconds([_behavior(turn) for turn in turns]),
            f"{_ratio(rounds, name, _behavior):.2f}×",
            f"{_median([turn.cpu for turn in turns]):.2f}",
            f"{max(turn.peak for turn in turns) / 1e6:,.0f}",
            f"{about[name]['start']:.0f}",
        )
    return table


def _described(about: Mapping[str, Any]) -> str:
    packages = [f"{package} {version}" for package, version in about["versions"].items()]
    return ", ".join([*packages, about.get("precision", "float32")])


def tiny(args: argparse.Namespace, targets: Targets, say: Say) -> Table:
    """Updates per second of the preset for small games, with and without behavior."""
    from wmtk.training.presets import training_config

    data = training_config("tiny").data
    shape = Shape(data.batch_size, data.length, 3)
    stages = {"model": "model", "model and behavior": "full"}
    missing = importlib.util.find_spec(POLICY) is None
    if missing:
        del stages["model and behavior"]
    times = 2 if args.quick else 20
    note = (
        f"Of the shape of `wmtk/Catch-v0`: {shape}, 3 actions, {times} updates a turn, "
        f"{args.rounds} rounds. Milliseconds of an update, median (quartiles)."
    ) + (" Behavior is not measured: wmtk cannot learn it yet." if missing else "")
    columns = ("what", "threads", "ms", "updates/s", "processor, ms", "peak memory, MB")
    table = Table("Updates of the preset tiny", columns, note)
    with tempfile.TemporaryDirectory(prefix="wmtk-model-") as name, ExitStack() as stack:
        folder = Path(name)
        batch = model_batch.write(folder / "batch.npz", shape)
        running: dict[tuple[str, int], Contender] = {}
        for what, stage in stages.items():
            for threads in sorted({1, args.threads}):
                options = ("--preset", "tiny", "--stage", stage, "--times", times)
                running[what, threads] = stack.enter_context(
                    Contender(
                        f"{what}, {threads}", sys.executable, "run_wmtk.py", batch, *options,
                        folder=folder, threads=threads, warmup=args.warmup,
                    )
                )  # fmt: skip
        rounds = in_turns(list(running.values()), args.rounds, "tiny", say)
    for (what, threads), contender in running.items():
        turns = [each[contender.name] for each in rounds]
        spread = Spread.of([turn.seconds for turn in turns])
        cpu = 1000 * _median([turn.cpu for turn in turns])
        peak = max(turn.peak for turn in turns) / 1e6
        table.add(what, threads, spread, f"{1 / spread.median:.1f}", f"{cpu:.1f}", f"{peak:,.0f}")
        if threads == args.threads and what != "model":
            targets.at_least(f"tiny: updates of {what}", 1 / spread.median, FULL_RATE, " a second")
    return table


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _seconds(times: Sequence[float]) -> str:
    spread = Spread.of(times)
    return f"{spread.median:.2f} ({spread.low:.2f}–{spread.high:.2f})"


# --- the command ------------------------------------------------------------------------------


def arguments(known: Mapping[str, Peer]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    default = Path(tempfile.gettempdir()) / "wmtk-benchmarks" / "peers"
    add("--rounds", type=int, help="updates of each contender (default: 7)")
    add("--threads", type=int, default=2, help="of each contender (default: 2)")
    add("--quick", action="store_true", help="small and few, to see that it runs")
    add("--only", nargs="+", choices=PARTS, default=PARTS, help="measure only these")
    add("--peers", nargs="*", choices=list(known), default=list(known), help="against only these")
    add("--folder", type=Path, default=default, help=f"for their packages (default: {default})")
    add("--json", type=Path, metavar="FILE", help="write the tables as JSON")
    add("--markdown", type=Path, metavar="FILE", help="put the tables into this file")
    found = parser.parse_args()
    found.rounds = found.rounds or (1 if found.quick else 7)
    found.warmup = 1 if found.quick else 2
    return found


def main() -> None:
    known = {peer.name: peer for peer in peers()}
    args = arguments(known)
    random.seed(0)
    console = Console(width=None if Console().is_terminal else 200)
    progress = Console(stderr=True)
    began = time.monotonic()
    targets = Targets()

    def say(what: str) -> None:
        progress.print(f"{time.monotonic() - began:6.0f} s  {what}", highlight=False)

    paper = [part for part in args.only if part in FASTER]
    args.peers = [known[name] for name in args.peers] if paper else []
    args.folder.mkdir(parents=True, exist_ok=True)
    args.pythons = {peer.name: interpreter(peer, args.folder, say) for peer in args.peers}
    load = os.getloadavg()[0]
    targets.note = f"{processor()}, {os.cpu_count()} cores, load before {load:.1f}."
    tables: list[Table] = [targets]
    for part in paper:
        tables.append(at_paper_size(part, args, targets, say))
    if "tiny" in args.only:
        tables.append(tiny(args, targets, say))
    for table in tables:
        table.show(console)
    if args.json:
        args.json.write_text(json.dumps([table.to_json() for table in tables], indent=1) + "\n")
    if args.markdown:
        write_markdown(args.markdown, "model", tables)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    return named or platform.processor()


if __name__ == "__main__":
    main()
