"""Learning curves over seeds, by the commands that anybody can type, for docs/results.md.

    python benchmarks/learning.py --folder runs/learning offline-catch offline-reach
    python benchmarks/learning.py --folder runs/learning online-catch --markdown docs/results.md

Every command is printed. What is there already is not done again, and what was interrupted goes
on: the same line after a break, or on another day, ends with the same tables and charts.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from timing import Table, write_markdown

from wmtk.envs import resolve
from wmtk.envs.known_returns import known_returns
from wmtk.runs.metrics_log import read_metrics
from wmtk.stats import Estimate
from wmtk.viz.plots.curves import Curve, CurvePanel, curve_figure
from wmtk.viz.plots.figures import PALETTE, save_figure
from wmtk.viz.plots.quality_chart import without_interval

SEEDS = (0, 1, 2)
FALLING = {"optimizer.lr": '{"start": 1e-3, "end": 1e-4, "steps": 16000}'}
ONLINE = {
    "optimizer.lr": '{"start": 1e-3, "end": 1e-4, "steps": 11000}',
    "online.evaluate": 2000,
    "online.episodes": 50,
}
# With less entropy at first, one seed of three stops to explore before it has seen enough.
CURIOUS = ONLINE | {"behavior.entropy": '{"start": 1e-2, "end": 1e-3, "steps": 6000}'}
CARTPOLE = {
    "model.discount_scale": 0,
    "model.image_scale": 10,
    "model.kl_scale": 1,
    "model.discount": 0.97,
    "model.rssm.deter": 200,
    "optimizer.lr": '{"start": 1e-3, "end": 2e-4, "steps": 11000}',
    "behavior.horizon": 12,
    "behavior.entropy": '{"start": 0.03, "end": 0.001, "steps": 6000}',
    "behavior.actor.lr": 1e-4,
    "data.batch_size": 6,
    "data.length": 16,
    "online.train_every": 2,
    "online.envs": 2,
    "online.pretrain": 500,
    "online.evaluate": 2500,
    "logging.image_every": 5000,
}
# Smaller batches than the preset's for Atari, and shorter dreams; rewards that weigh more, since a
# model of this size leaves them out at first.
BOXING = {
    "model.reward_transform": "tanh",
    "model.image_scale": 3,
    "model.reward_scale": 10,
    "model.discount": 0.97,
    "model.rssm.deter": 200,
    "optimizer.lr": '{"start": 1e-3, "end": 2e-4, "steps": 80000}',
    "behavior.horizon": 10,
    "behavior.entropy": '{"start": 3e-3, "end": 1e-3, "steps": 40000}',
    "data.batch_size": 6,
    "data.length": 12,
    "online.train_every": 3,
    "online.envs": 4,
    "online.prefill": 7000,
    "online.pretrain": 1000,
    "online.evaluate": 25000,
    "online.episodes": 4,
    "logging.image_every": 10000,
}
KEPT = {"logging.checkpoint_every": 2000, "logging.keep_checkpoints": 100}  # to draw a curve of
IMAGES = Path("docs/images")


@dataclass(frozen=True)
class Experiment:
    """A task and how it is learned; with `policy` updates offline, from random play."""

    title: str
    task: str
    steps: int  # that are played in all; offline, at random, once for all seeds
    data: str = ""  # offline: the dataset
    model: int = 0  # updates
    policy: int = 0  # updates
    settings: Mapping[str, object] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # of the command that learns
    penalty: float = 0.0
    episodes: int = 200  # of the last test
    tested_with: tuple[str, ...] = ()  # options of the last test
    # What others have published for as many frames, where the curve is of the same length.
    published: Mapping[str, float] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, float]:
        """Returns of others, by who they are, random play first."""
        return known_returns(resolve(self.task))


CATCH, REACH = "wmtk/Catch-v0", "wmtk/Reach-v0"

EXPERIMENTS = {
    "offline-catch": Experiment(
        "Catch, from random play",
        CATCH,
        20_000,
        "catch.zarr",
        model=16_000,
        policy=16_000,
        settings=FALLING,
    ),
    "offline-reach": Experiment(
        "Reach, from random play",
        REACH,
        20_000,
        "reach.zarr",
        model=16_000,
        policy=8_000,
        settings=FALLING,
    ),
    # Too little data, and a long training against what was learned from it.
    "exploited-catch": Experiment(
        "Catch, from 2,000 steps", CATCH, 2_000, "few.zarr", model=4_000, policy=12_000
    ),
    "exploited-catch-careful": Experiment(
        "Catch, from 2,000 steps, with a penalty",
        CATCH,
        2_000,
        "few.zarr",
        model=4_000,
        policy=12_000,
        penalty=3.0,
    ),
    "online-catch": Experiment("Catch, online", CATCH, 16_000, settings=CURIOUS),
    "online-reach": Experiment("Reach, online", REACH, 18_000, settings=ONLINE),
    # Episodes that begin with the pole upright five times as often; tested at full length.
    "online-cartpole": Experiment(
        "Cartpole, online",
        "dmc_cartpole_balance",
        25_000,
        settings=CARTPOLE,
        options=("--env-set", "repeat=4", "--env-set", "time_limit=200", "--workers", "0"),
        episodes=20,
        tested_with=("--env-set", "time_limit=1000"),
    ),
    # 400,000 frames. The first returns that are published, of five seeds, are at a million: 46.4,
    # 36.4, 34.5, 39.4 and 35.6.
    "online-boxing": Experiment(
        "Boxing, online",
        "atari_boxing",
        100_000,
        settings=BOXING,
        options=("--workers", "0"),
        episodes=20,
        published={"DreamerV2 at a million frames": 38.5},
    ),
}
# The same agent without one of its parts, for a quarter as long.
LEFT_OUT = ("no-discrete-latents", "no-kl-balancing", "no-policy-reinforce", "no-image-gradients")
EXPERIMENTS |= {
    f"online-catch-{part}": Experiment(
        f"Catch, online, {part}", CATCH, 4_000, settings=CURIOUS, options=("--ablate", part)
    )
    for part in LEFT_OUT
}
COMPARISONS = {
    "ablated-catch": (
        "Catch, online, without a part",
        {"full agent": "online-catch"} | {part: f"online-catch-{part}" for part in LEFT_OUT},
    )
}


@dataclass(frozen=True)
class Outcome:
    seed: int
    minutes: float  # on the clock, of learning
    test: dict[str, Any]  # what `wmtk eval --json` says
    at: list[int]  # updates offline, agent steps online
    curve: Estimate  # of the return there
    imagined: Estimate | None = None  # offline: the value of the first states
    real: Estimate | None = None  # the discounted return


class Lab:
    """Where runs are, and the commands that make them."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder, self._console = folder, console

    def command(self, *words: object) -> str:
        """Run `wmtk …` with one thread in the folder; what it printed."""
        line = ["wmtk", *map(str, words)]
        self._console.print(f"$ {shlex.join(line)}", highlight=False, soft_wrap=True)
        done = subprocess.run(
            [sys.executable, "-m", "wmtk", *line[1:]],
            cwd=self.folder, check=False, capture_output=True, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{shlex.join(line)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def once(self, name: str, *words: object) -> Any:
        """The same for commands with JSON, unless it was done before."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(json.loads(self.command(*words, "--json"))) + "\n")
        return json.loads(path.read_text())

    def minutes(self, *runs: str) -> float:
        """How long runs have learned on the clock, breaks left out."""
        return sum(minutes_of(read_metrics(self.folder / run)) for run in runs)


def minutes_of(reports: Sequence[Mapping[str, Any]]) -> float:
    """How long the updates took that were reported, and whatever happened between them."""
    seconds, before = 0.0, 0
    for report in reports:
        if rate := report.get("time/updates_per_second"):
            seconds += (report["step"] - before) / rate
            before = report["step"]
    return seconds / 60


def learn(lab: Lab, name: str, seed: int) -> Outcome:
    """One seed of an experiment: what is learned from it, tested in new episodes."""
    return (_offline if EXPERIMENTS[name].policy else _online)(lab, name, seed)


def _offline(lab: Lab, name: str, seed: int) -> Outcome:
    chosen, model = EXPERIMENTS[name], f"{name.removesuffix('-careful')}-{seed}-model"
    policy, again = f"{name}-{seed}-policy", ("--seed", seed, "--resume")
    options = ("--preset", "tiny", *_sets(chosen.settings), *chosen.options)
    to = ("--out", model, "--updates", chosen.model)
    lab.once(model, "train-model", chosen.data, *to, *options, *again)
    options = (*_sets(KEPT), *(("--penalty", chosen.penalty) if chosen.penalty else ()))
    to = ("--out", policy, "--updates", chosen.policy)
    lab.once(policy, "train-policy", model, *to, *options, *again)
    few = ("--episodes", 50, "--checkpoints", 8)
    curves = lab.once(f"{policy}-returns", "viz", "returns", policy, *few)
    return Outcome(
        seed=seed,
        minutes=lab.minutes(model, policy),
        test=_tested(lab, policy, chosen),
        at=curves["updates"],
        curve=_estimate(curves["returns"]),
        imagined=_estimate(curves["imagined"]),
        real=_estimate(curves["discounted"]),
    )


def _online(lab: Lab, name: str, seed: int) -> Outcome:
    chosen, run = EXPERIMENTS[name], f"{name}-{seed}"
    options = (*_sets(chosen.settings), *chosen.options, "--seed", seed, "--resume")
    to = ("--out", run, "--steps", chosen.steps)
    lab.once(run, "online", chosen.task, *to, *options)
    reports = [r for r in read_metrics(lab.folder / run) if r.get("eval/return") is not None]
    return Outcome(
        seed=seed,
        minutes=lab.minutes(run),
        test=_tested(lab, run, chosen),
        at=[int(report["steps/agent"] or 0) for report in reports],
        curve=without_interval([report["eval/return"] or 0.0 for report in reports]),
    )


def _tested(lab: Lab, run: str, chosen: Experiment) -> dict[str, Any]:
    options = ("--episodes", chosen.episodes, *chosen.tested_with)
    result: dict[str, Any] = lab.once(f"{run}-eval", "eval", run, *options)
    return result


def _sets(settings: Mapping[str, object]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def _estimate(parts: Sequence[Sequence[float]]) -> Estimate:
    """The mean over episodes at each checkpoint, with twice its standard error on both sides."""
    means = np.array([np.mean(part) for part in parts])
    errors = np.array([2 * np.std(part) / len(part) ** 0.5 for part in parts])
    return Estimate(means, means - errors, means + errors)


def table_of(name: str, outcomes: Sequence[Outcome]) -> Table:
    chosen = EXPERIMENTS[name]
    known, best = chosen.known, [*chosen.known][-1:]
    columns = (
        "seed",
        "mean return (95% interval)",
        *(f"of random to {who}" for who in best),
        "critic's estimate",
        "achieved",
        "minutes, one core",
    )
    others = "".join(f"; {who}: {value:g}" for who, value in {**known, **chosen.published}.items())
    note = (
        f"{chosen.episodes} episodes each{others}. Critic's estimate: the mean value of the first "
        "states; achieved: the mean discounted return. Minutes: wall-clock, on a shared machine."
    )
    table = Table(chosen.title, columns, note)
    for outcome in outcomes:
        test = outcome.test
        mean, low, high = (f"{test[key]:.2f}" for key in ("mean", "low", "high"))
        shares = [f"{test['reached'][who]:.0%}" for who in best]
        both = [test["imagined"][part]["mean"] for part in ("expected", "real")]
        cells = (f"{mean} ({low} to {high})", *shares, *(f"{x:.2f}" for x in both))
        table.add(outcome.seed, *cells, f"{outcome.minutes:.1f}")
    return table


def panels_of(name: str, outcomes: Sequence[Outcome]) -> list[CurvePanel]:
    """A curve for each seed, with the returns that are known as lines."""
    chosen = EXPERIMENTS[name]
    shortest = min(len(outcome.at) for outcome in outcomes)
    x = [float(number) for number in outcomes[0].at[:shortest]]

    def curves(part: str) -> list[Curve]:
        return [
            Curve(f"seed {o.seed}", _first(getattr(o, part), shortest), PALETTE[k])
            for k, o in enumerate(outcomes)
        ]

    known = {**chosen.known, **chosen.published}
    over = "update of the policy" if chosen.policy else "agent step"
    panels = [CurvePanel("Return", curves("curve"), over, "return", x, levels=known)]
    if chosen.policy:
        both = [*curves("real"), *(_dashed(c) for c in curves("imagined"))]
        title = "Discounted: reached, and imagined (dashed)"
        panels.append(CurvePanel(title, both, over, "discounted return", x))
    return panels


def draw(name: str, panels: Sequence[CurvePanel], title: str, caption: str = "") -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure = curve_figure(panels, title=title, caption=caption)
    save_figure(figure, IMAGES / f"results-{name}.png")


def compared(title: str, outcomes: Mapping[str, Sequence[Outcome]]) -> tuple[Table, CurvePanel]:
    """Experiments side by side, at the last of the tests that all of them had."""
    each = [outcome for seeds in outcomes.values() for outcome in seeds]
    places = min((outcome.at for outcome in each), key=len)
    last = len(places) - 1
    seeds = [f"seed {outcome.seed}" for outcome in next(iter(outcomes.values()))]
    note = f"The mean return of a test after {places[last]:,} agent steps."
    table = Table(title, ("", *seeds, "mean"), note)
    curves = []
    for color, (what, found) in zip(PALETTE, outcomes.items(), strict=False):
        returns = np.array([outcome.curve.value[: last + 1] for outcome in found])
        ends = returns[:, last]
        table.add(what, *(f"{value:.2f}" for value in ends), f"{ends.mean():.2f}")
        spread = Estimate(returns.mean(0), returns.min(0), returns.max(0))
        curves.append(Curve(what, spread, color))
    x = [float(number) for number in places]
    return table, CurvePanel("Return", curves, "agent step", "return", x)


def _first(values: Estimate, count: int) -> Estimate:
    return Estimate(values.value[:count], values.low[:count], values.high[:count])


def _dashed(curve: Curve) -> Curve:
    """The same without a name: the color is that of the seed."""
    return Curve("", curve.values, curve.color, dashed=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=[*EXPERIMENTS, *COMPARISONS])
    parser.add_argument("--folder", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2, help="seeds side by side, a thread each")
    parser.add_argument("--markdown", type=Path, help="a file to put the tables into")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    lab = Lab(args.folder, console)
    for name in args.names:
        if name in COMPARISONS:
            title, parts = COMPARISONS[name]
            table, panel = compared(
                title, {what: learn_all(lab, part, args) for what, part in parts.items()}
            )
            draw(
                name,
                [panel],
                title,
                "Means over the seeds; bands reach from the lowest seed to the highest.",
            )
        else:
            outcomes = learn_all(lab, name, args)
            table = table_of(name, outcomes)
            draw(name, panels_of(name, outcomes), EXPERIMENTS[name].title)
        table.show(console)
        if args.markdown:
            write_markdown(args.markdown, name, [table])


def learn_all(lab: Lab, name: str, args: argparse.Namespace) -> list[Outcome]:
    """Every seed of an experiment, from the same data if that is offline."""
    chosen = EXPERIMENTS[name]
    if chosen.policy:
        options = ("--steps", chosen.steps, "--envs", 8, "--seed", 0)
        lab.once(chosen.data, "collect", chosen.task, "--out", chosen.data, *options)
    with ThreadPoolExecutor(args.jobs) as pool:
        return list(pool.map(lambda seed: learn(lab, name, seed), args.seeds))


if __name__ == "__main__":
    main()
