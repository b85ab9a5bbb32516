"""Charts as data: what the page's script draws, in the terms that it understands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import Estimate
from wmtk.viz.html_report.markup import Markup, element, joined

DIGITS = 5  # of the numbers in the page


@dataclass(frozen=True)
class Series:
    """A curve: a name, one of the colors of the style sheet, numbers and intervals."""

    name: str
    look: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    hidden: bool = False  # until it is asked for
    weight: Sequence[float] | None = None  # 0 to 1, the size of points
    loose: bool = False  # points without lines between them
    notes: Sequence[str] | None = None  # beside the numbers that are pointed at


@dataclass(frozen=True)
class Chart:
    """Curves over one axis."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    note: str = ""
    about: str = ""  # the definition that explains it
    kind: str = "lines"  # or "points", "bars"
    bar: float = 1.0  # how wide bars are
    span: tuple[float, float] | None = None  # of the horizontal axis, if not of the numbers
    group: str = ""  # charts of a group have one cursor
    log: bool = False
    whole: bool = False  # the horizontal axis counts something
    zero: bool = False  # whether 0 means something
    diagonal: bool = False
    rules: Sequence[tuple[float, str]] = ()
    extents: Sequence[tuple[float, str]] = field(default=())


def curve(
    name: str, look: str, found: Estimate, *, first: int = 1, band: bool = True, **more: Any
) -> Series:
    """Numbers at consecutive steps, with their intervals unless there are none."""
    x = (first + np.arange(len(found.value))).tolist()
    low, high = (None, None)
    if band and not np.isnan(found.low).all():
        low, high = found.low.tolist(), found.high.tolist()
    return Series(name, look, x, found.value.tolist(), low, high, **more)


def known(series: Series) -> bool:
    """Whether there is anything to draw."""
    return bool(np.isfinite(np.asarray(series.y, np.float64)).any())


def figures(charts: Iterable[Chart]) -> Markup:
    """Charts side by side, without the curves and charts that have no numbers."""
    kept = [replace(chart, series=[s for s in chart.series if known(s)]) for chart in charts]
    return element("div", *(figure(chart) for chart in kept if chart.series), class_="charts")


def figure(chart: Chart) -> Markup:
    """One chart: title, explanation, legend, the place that is drawn in, its numbers as a table."""
    title: list[str] = [chart.title]
    if chart.about:
        link = element("a", "what is this?", href=f"#about-{chart.about}", class_="small")
        title += [" ", link]
    names = ", ".join(series.name for series in chart.series)
    return element(
        "figure",
        element("figcaption", *title),
        element("p", chart.note, class_="note") if chart.note else "",
        element("div", class_="legend"),
        element(
            "div",
            class_="plot",
            tabindex=0,
            role="group",
            aria_label=f"{chart.title}: {names}. Arrow keys read the numbers.",
        ),
        element("details", element("summary", "Numbers")),
        data(_spec(chart)),
        class_="chart",
    )


def data(value: Any) -> Markup:
    """Plain data for the script, which cannot end its element early."""
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    return element("script", Markup(text.replace("<", "\\u003c")), type="application/json")


def plain(value: Any) -> Any:
    """Arrays as lists, numbers with a few digits, null for what is not finite."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    return value


def _spec(chart: Chart) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "x": chart.x,
        "y": chart.y,
        "kind": chart.kind,
        "series": [_series(series) for series in chart.series],
        "rules": [{"y": y, "text": text} for y, text in chart.rules],
        "extents": [{"x": x, "text": text} for x, text in chart.extents],
    }
    for name in ("span", "group", "log", "whole", "zero", "diagonal"):
        if getattr(chart, name):
            spec[name] = getattr(chart, name)
    if chart.kind == "bars":
        spec["bar"] = chart.bar
    return spec


def _series(series: Series) -> dict[str, Any]:
    found = {name: getattr(series, name) for name in ("name", "look", "x", "y")}
    for name in ("low", "high", "dashed", "hidden", "weight", "loose", "notes"):
        if getattr(series, name):
            found[name] = getattr(series, name)
    return found


def histogram(
    title: str, x: str, values: ArrayLike, *, look: str = "recorded", bins: int = 24, note: str = ""
) -> Markup:
    """How numbers are distributed, or a sentence where they are all the same."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    distinct = np.unique(numbers)
    if len(distinct) < 2:
        value = f"{distinct[0]:.4g}" if len(distinct) else "none"
        return joined(element("p", f"{title}: {value} throughout.", class_="soft"))
    gap = float(np.diff(distinct).min())
    wide = float(distinct[-1] - distinct[0])
    if wide / gap < bins:  # so few values that each can have a bar of its own
        edges = np.arange(distinct[0] - gap / 2, distinct[-1] + gap, gap)
    else:
        edges = np.linspace(distinct[0], distinct[-1], bins + 1)
    count, edges = np.histogram(numbers, edges)
    middle = (edges[:-1] + edges[1:]) / 2
    series = Series("episodes", look, middle.tolist(), count.astype(float).tolist())
    width = float(edges[1] - edges[0])
    return figure(Chart(title, x, "episodes", [series], note, kind="bars", bar=width))
