"""The result of `wmtk eval` as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wmtk.cli.common.console import human_count
from wmtk.cli.data.dataset_tables import number

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


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
            f"random, {human_count(measured['episodes'], 'episode')} measured",
            f"{mean} ± {std}",
            "",
        )
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{round(100 * share) + 0:d}%"
