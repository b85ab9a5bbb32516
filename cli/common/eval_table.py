"""The result of `wmtk eval`: the record for machines, and how it looks on a terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from wmtk.cli.common.console import human_count
from wmtk.cli.data.dataset_tables import number

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wmtk.collecting import EvalReport, Policy, PolicyIntrospector
    from wmtk.datasets import Schema
    from wmtk.envs import ResolvedTask
    from wmtk.scores import Baselines, ReturnComparison


@dataclass(frozen=True)
class Player:
    """A policy and its task, and what the record is to say of them."""

    task: ResolvedTask
    schema: Schema
    policy: Policy
    name: str  # for people
    mind: PolicyIntrospector | None = None
    seed: int = 0  # that tells it from others made in the same way
    agent: str = ""
    run: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    baselines: Baselines | None = None  # that its run has stored for this task

    @property
    def longest(self) -> int | None:
        """Steps after which an episode is cut; None where the task has a limit, or none is known.

        Without a limit, longer episodes than those of the data would not compare with them.
        """
        if self.task.time_limit is not None or self.baselines is None:
            return None
        return self.baselines.longest


def record_of(player: Player, report: EvalReport, chance: EvalReport | None) -> dict[str, Any]:
    """What `wmtk scores` reads, and more."""
    from wmtk.envs.known_returns import known_returns

    base = report.evaluation(seed=player.seed, agent=player.agent, run=player.run).to_json()
    known = known_returns(player.task)
    imagined = None
    if report.discount is not None:
        pairs = zip(report.predicted_returns, report.discounted_returns, strict=True)
        imagined = {
            "discount": report.discount,
            "expected": _spread(report.predicted_returns),
            "real": _spread(report.discounted_returns),
            "excess": _spread([expected - real for expected, real in pairs]),
            "expected_returns": report.predicted_returns,
            "real_returns": report.discounted_returns,
        }
    return {
        **base,
        "policy": player.name,
        **player.about,
        "settings": player.task.settings,
        "length": _spread(report.lengths),
        "known": known,
        "reached": _reached(base["mean"], known),
        "measured_random": _spread(chance.returns) if chance and chance.results else None,
        "comparison": _compared(player, report, chance).to_json(),
        "imagined": imagined,
        "steps": sum(report.lengths),
        "frames": report.frames,
        "dropped": report.dropped,
        "seconds": report.seconds,
        "interrupted": report.interrupted,
    }


def _spread(values: Any) -> dict[str, Any]:
    """Mean, standard deviation and interval of the mean."""
    from wmtk.scores import summarize_returns

    summary = asdict(summarize_returns(values))
    return {name: summary[name] for name in ("episodes", "mean", "std", "low", "high")}


def _compared(player: Player, report: EvalReport, chance: EvalReport | None) -> ReturnComparison:
    """The mean return beside random play, the run's data and the task's threshold."""
    from wmtk.envs.known_returns import known_returns, reward_threshold
    from wmtk.scores import Baselines, MeanReturn, compare_return, summarize_returns

    stored = player.baselines or Baselines()
    known = known_returns(player.task)
    random = MeanReturn(known["random"]) if known else stored.random
    if chance and chance.results:
        random = MeanReturn.of(summarize_returns(chance.returns))
    if player.agent == "random":
        random = None if not chance else random  # it is random play
    baselines = Baselines(random, stored.data, reward_threshold(player.task))
    return compare_return(MeanReturn.of(summarize_returns(report.returns)), baselines)


def _reached(mean: float, known: dict[str, float]) -> dict[str, float]:
    """How far on the way from random play to each of the others."""
    from wmtk.scores import normalize

    others = [name for name in known if name != "random"]
    return {name: normalize(mean, known["random"], known[name]).item() for name in others}


def render(record: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(f"{record['policy']}, in {record['task']}, seed {record['eval_seed']}"),
        "",
        _numbers(record),
    ]
    if record["known"] or record["measured_random"]:
        parts += ["", _comparison(record)]
    parts += ["", Text(record["comparison"]["sentence"])]
    if record["dropped"]:
        parts.append(
            f"{human_count(record['dropped'], 'episode')} of a failing environment dropped."
        )
    return Group(*parts)


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(columns[0], no_wrap=True)
    for column in columns[1:]:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _numbers(record: dict[str, Any]) -> Table:
    head = human_count(record["episodes"], "episode")
    table = _table(head, "mean", "std", f"{record['confidence']:.0%} interval")
    rows = {"return": record, "length": record["length"]}
    if imagined := record["imagined"]:
        rows["discounted return"] = imagined["real"]
        rows["the critic expected"] = imagined["expected"]
        rows["difference"] = imagined["excess"]
    for name, row in rows.items():
        table.add_row(name, *_cells(row))
    return table


def _cells(row: dict[str, Any]) -> list[str]:
    interval = "–" if row["low"] is None else f"{number(row['low'])} to {number(row['high'])}"
    return [number(row["mean"]), number(row["std"]), interval]


def _comparison(record: dict[str, Any]) -> Table:
    table = _table("compared with", "return", "reached")
    for name, value in record["known"].items():
        reached = record["reached"].get(name)
        table.add_row(name, number(value), _percent(reached))
    if measured := record["measured_random"]:
        mean, std, _ = _cells(measured)
        table.add_row(
            f"random, {human_count(measured['episodes'], 'episode')} just now",
            f"{mean} ± {std}",
            "",
        )
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{round(100 * share) + 0:d}%"
