"""What the measurements share: medians with their spread, cold caches, tables."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def times(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of this process' processor time."""
    began = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began[0], time.process_time() - began[1]


@dataclass(frozen=True)
class Spread:
    """The median of some times and the quartiles around it, in seconds."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, times: Sequence[float]) -> Spread:
        low, median, high = np.quantile(times, [0.25, 0.5, 0.75]).tolist()
        return cls(median, low, high, len(times))

    def __str__(self) -> str:
        return f"{milliseconds(self.median)} ({milliseconds(self.low)}–{milliseconds(self.high)})"


def milliseconds(value: float) -> str:
    thousandths = value * 1000
    return f"{thousandths:.{max(0, 2 - len(str(int(thousandths))) + 1)}f}"


def megabytes(size: float) -> str:
    value = size / 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# --- files ------------------------------------------------------------------------------------


def files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    else:
        yield from (child for child in path.rglob("*") if child.is_file())


def size(path: Path) -> int:
    """Bytes of all files."""
    return sum(file.stat().st_size for file in files(path))


def blocks(path: Path) -> int:
    """Bytes that the file system has set aside for all files."""
    return sum(file.stat().st_blocks * 512 for file in files(path))


def forget(path: Path) -> str:
    """Make the operating system forget what it holds of `path` in memory; says how."""
    os.sync()
    with contextlib.suppress(OSError):
        DROP_CACHES.write_text("3")
        return "the whole page cache dropped"
    for file in files(path):
        with file.open("rb") as handle:
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return "the files' pages dropped with posix_fadvise (no permission to drop the whole cache)"


def load_into_page_cache(path: Path) -> None:
    for file in files(path):
        with file.open("rb") as handle:
            while handle.read(2**22):
                pass


# --- tables -----------------------------------------------------------------------------------


@dataclass
class Table:
    """A table for the terminal, for the manual and for machines."""

    title: str
    columns: tuple[str, ...]
    note: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        assert len(cells) == len(self.columns), (cells, self.columns)
        self.rows.append(tuple(map(str, cells)))

    def show(self, console: Console) -> None:
        table = RichTable(title=self.title, caption=self.note or None, box=box.SIMPLE_HEAD)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*map(escape, row))
        console.print(table)

    def markdown(self) -> str:
        lines = [f"### {self.title}", ""] + ([self.note, ""] if self.note else [])
        lines += [_line(self.columns), _line(["---", *["---:"] * (len(self.columns) - 1)])]
        return "\n".join([*lines, *map(_line, self.rows), ""])

    def to_json(self) -> dict[str, Any]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "note": self.note, "rows": rows}


def write_markdown(path: Path, name: str, tables: Iterable[Table]) -> None:
    """Put the tables between `<!-- name -->` and `<!-- /name -->` of a file, or make it."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = path.read_text() if path.exists() else f"{begin}\n{end}\n"
    before, _, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    assert closed, f"{path} has no {begin} … {end}"
    content = "\n".join(table.markdown() for table in tables)
    path.write_text(f"{before}{begin}\n\n{content}\n{end}{after}")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


class Targets(Table):
    """The summary: what was wanted, what was measured."""

    def __init__(self) -> None:
        super().__init__("Targets", ("what", "target", "measured", "met"))

    def at_most(self, what: str, measured: float, target: float, unit: str = "×") -> None:
        self._judge(what, f"≤ {target:g}{unit}", measured, unit, measured <= target)

    def at_least(self, what: str, measured: float, target: float, unit: str = "×") -> None:
        self._judge(what, f"≥ {target:g}{unit}", measured, unit, measured >= target)

    def _judge(self, what: str, target: str, measured: float, unit: str, met: bool) -> None:
        self.add(what, target, f"{measured:.3g}{unit}", "yes" if met else "NO")
