"""Tables of the results of `wmtk data`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wmtk.cli.common.console import human_bytes, human_count
from wmtk.escaping import one_line

if TYPE_CHECKING:
    from wmtk.datasets.integrity.repair import RepairReport
    from wmtk.datasets.integrity.validate import ValidationReport
    from wmtk.datasets.summary import ProvenanceSummary, Statistics, Summary, TagSummary

BARS = "▁▂▃▄▅▆▇█"
MOST_IDS = 8  # of lost episodes, per part
STYLES = {"error": "bold red", "warning": "yellow"}


@dataclass(frozen=True)
class Listed:
    """A row of `wmtk data list`; `problem` is the error of a dataset that cannot be opened."""

    path: Path
    env: str = ""
    episodes: int = 0
    steps: int = 0
    mean_return: float | None = None
    stored_bytes: int = 0
    version: int = 0
    tags: tuple[str, ...] = ()
    problem: str = ""


def number(value: float) -> str:
    """A number with four significant digits: 12.34, 1,234, 0.001234."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _grid(*columns: str, right: Iterable[str] = ()) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, show_header=any(columns))
    numeric = set(right)
    for column in columns:
        if column in numeric:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold")
    return table


# --- info -------------------------------------------------------------------------------------


def render_info(summary: Summary) -> RenderableType:
    facts = _grid("", "")
    for name, value in _facts(summary):
        facts.add_row(Text(name, "dim"), one_line(value))
    blocks: list[RenderableType] = [
        Text(one_line(str(summary.path)), "bold"),
        facts,
        "",
        _arrays(summary),
    ]
    if summary.provenance:
        blocks += ["", _provenance(summary.provenance)]
    if summary.tags:
        blocks += ["", render_tags(summary.tags)]
    return Group(*blocks)


def _facts(summary: Summary) -> Iterable[tuple[str, str]]:
    yield "task", summary.task or "unknown"
    if settings := _settings(summary.env):
        yield "settings", settings
    tag = f" (tag {summary.tag})" if summary.tag else ""
    yield "version", f"{summary.version}{tag}, in {human_count(summary.parts, 'part')}"
    yield "capacity", human_count(summary.capacity, "step") if summary.capacity else "unlimited"
    yield "episodes", human_count(summary.episodes)
    yield "steps", human_count(summary.steps)
    if summary.returns and summary.lengths:
        yield "return", _spread(summary.returns)
        if summary.histogram:
            low, high = number(summary.returns.min), number(summary.returns.max)
            yield "", f"{low} {sparkline(summary.histogram)} {high}"
        yield "length", _spread(summary.lengths)
        yield "endings", ", ".join(f"{human_count(n)} {k}" for k, n in summary.ends.items() if n)
    raw, ratio = human_bytes(summary.raw_bytes), number(round(summary.ratio, 1))
    yield "size", f"{human_bytes(summary.stored_bytes)} on disk, {raw} raw ({ratio}×)"
    for source in summary.attributes.get("sources", ()):
        yield "from", f"{source['name']} version {source['version']}, {source['episodes']} episodes"


def _spread(spread: Statistics) -> str:
    mean, std = number(spread.mean), number(spread.std)
    return f"{mean} ± {std}, from {number(spread.min)} to {number(spread.max)}"


def sparkline(counts: Sequence[int]) -> str:
    """A histogram as a line of bars, with a blank for an empty bin."""
    top = max(counts)
    return "".join(BARS[(count * 7 + top - 1) // top] if count else " " for count in counts)


def _settings(env: Mapping[str, Any]) -> str:
    """The settings that have a value, without the names of the task."""
    texts = []
    for key, value in env.items():
        if key in {"task", "id", "env_id"} or value in (None, "", {}, []):
            continue
        if isinstance(value, Mapping):
            value = "(" + ", ".join(f"{name} {item}" for name, item in value.items()) + ")"
        texts.append(f"{key}={value}")
    return ", ".join(texts)


def _arrays(summary: Summary) -> Table:
    table = _grid("array", "space", "dtype", "row size", right=["row size"])
    for array in summary.arrays:
        space = array.space.removesuffix(f" {array.dtype}")
        table.add_row(array.path, space, array.dtype, human_bytes(array.row_bytes))
    return table


def _provenance(groups: Sequence[ProvenanceSummary]) -> Table:
    numbers = ("episodes", "return", "seeds")
    table = _grid("policy", "task", "code", *numbers, right=numbers)
    for group in groups:
        policy = group.policy or "unknown"
        if group.checkpoint:
            policy += f" ({group.checkpoint[:8]})"
        table.add_row(
            one_line(policy),
            one_line(group.env_id or "unknown"),
            one_line(group.code_version or "unknown"),
            human_count(group.episodes),
            number(group.mean_return),
            human_count(len(set(group.seeds))),
        )
    return table


def render_tags(tags: Sequence[TagSummary]) -> RenderableType:
    if not tags:
        return Text("No tags.")
    numbers = ("version", "episodes", "steps")
    table = _grid("tag", *numbers, "created", "note", right=numbers)
    for tag in tags:
        counts = (human_count(n) for n in (tag.version, tag.episodes, tag.steps))
        table.add_row(tag.name, *counts, one_line(tag.created[:16].replace("T", " ")), tag.note)
    return table


# --- the others -------------------------------------------------------------------------------


def render_list(rows: Sequence[Listed], folder: Path) -> RenderableType:
    if not rows:
        return Text("No datasets.")
    numbers = ("episodes", "steps", "return", "size", "tags")
    table = _grid("dataset", "task", *numbers, right=numbers)
    for row in rows:
        if row.problem:
            table.add_row(_relative(row.path, folder), Text("damaged", "red"))
            continue
        table.add_row(
            _relative(row.path, folder),
            one_line(row.env or "unknown"),
            human_count(row.episodes),
            human_count(row.steps),
            "" if row.mean_return is None else number(row.mean_return),
            human_bytes(row.stored_bytes),
            human_count(len(row.tags)),
        )
    if any(row.problem for row in rows):
        return Group(table, "", Text("`wmtk data validate DATASET` reports the damage."))
    return table


def render_validation(report: ValidationReport) -> RenderableType:
    lines: list[RenderableType] = []
    for problem in report.problems:
        where = _relative(problem.path, report.path)
        severity = Text.assemble((problem.severity, STYLES[problem.severity]), f" {where}")
        lines += [severity, Text(f"  {problem.what}"), Text(f"  {problem.fix}", "dim")]
    how = "names, sizes and metadata" if report.quick else "every byte"
    counts = [
        human_count(report.parts, "part"),
        human_count(report.episodes, "episode"),
        human_count(report.steps, "step"),
        human_bytes(report.bytes),
    ]
    checked = f"{', '.join(counts)}: {how} checked at version {report.version}."
    totals = [
        human_count(len(problems), noun)
        for noun, problems in (("error", report.errors), ("warning", report.warnings))
        if problems
    ]
    verdict = " and ".join(totals) if totals else "No problems"
    if lines:
        lines.append("")
    return Group(*lines, Text(checked), Text(f"{verdict}.", "red" if report.errors else "green"))


def render_repair(report: RepairReport) -> RenderableType:
    if not report.actions:
        return Text("There is nothing to repair.")
    lines: list[RenderableType] = []
    for action in report.actions:
        lines += [Text(_relative(action.path, report.path)), Text(f"  {action.what}", "dim")]
        if action.lost:
            ids = ", ".join(action.lost[:MOST_IDS])
            more = len(action.lost) - MOST_IDS
            tail = f" and {human_count(more)} more" if more > 0 else ""
            lines.append(Text(f"  lost: {ids}{tail}", "red"))
    done = "would be made" if report.dry_run else "made"
    total = f"{human_count(len(report.actions), 'repair')} {done}"
    lost = human_count(len(report.lost), "episode") if report.lost else "no episode"
    unread = sum(action.is_unread for action in report.actions)
    besides = f", besides those in {human_count(unread, 'unreadable part')}" if unread else ""
    return Group(*lines, "", Text(f"{total}, {lost} lost{besides}."))


def _relative(path: Path, root: Path) -> str:
    inside = path.is_relative_to(root) and path != root
    return one_line(str(path.relative_to(root) if inside else path))
