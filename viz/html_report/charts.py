"""Charts as JSON, which the script of the page draws."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import Estimate
from wmtk.viz.html_report.markup import Markup, element, joined

DIGITS = 5  # significant digits of the numbers in the page


@dataclass(frozen=True)
class Series:
    """One curve of a chart, with optional intervals."""

    name: str
    color: str  # a color variable of the style sheet
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dashed: bool = False
    hidden: bool = False  # until it is selected in the legend
    weight: Sequence[float] | None = None  # sizes of points, from 0 to 1
    scatter: bool = False  # points without lines between them
    notes: Sequence[str] | None = None  # texts after the values in tooltips


@dataclass(frozen=True)
class Chart:
    """Curves with common axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    caption: str = ""
    definition: str = ""  # name of the definition to link to
    kind: str = "lines"  # or "points", "bars"
    bar_width: float = 1.0  # in units of x
    x_range: tuple[float, float] | None = None  # by default the range of the data
    group: str = ""  # charts of a group share a cursor
    log: bool = False  # logarithmic vertical axis
    integers: bool = False  # integer ticks on the horizontal axis
    zero: bool = False  # include 0 in the vertical axis and draw a line there
    diagonal: bool = False  # draw the line y = x
    rules: Sequence[tuple[float, str]] = ()  # horizontal lines: y and label
    extents: Sequence[tuple[float, str]] = field(default=())  # shaded up to x, with a label


def curve(
    name: str, color: str, estimate: Estimate, *, first: int = 1, band: bool = True, **options: Any
) -> Series:
    """A series of values at consecutive steps, with their intervals if these are known."""
    x = (first + np.arange(len(estimate.value))).tolist()
    low, high = (None, None)
    if band and not np.isnan(estimate.low).all():
        low, high = estimate.low.tolist(), estimate.high.tolist()
    return Series(name, color, x, estimate.value.tolist(), low, high, **options)


def has_values(series: Series) -> bool:
    """Whether any value is finite."""
    return bool(np.isfinite(np.asarray(series.y, np.float64)).any())


def figures(charts: Iterable[Chart]) -> Markup:
    """Charts side by side, without series and charts that have no finite values."""
    drawable = [replace(chart, series=list(filter(has_values, chart.series))) for chart in charts]
    return element("div", *(figure(chart) for chart in drawable if chart.series), class_="charts")


def figure(chart: Chart) -> Markup:
    """One chart: title, caption, legend, plot and a table of its numbers."""
    title: list[str] = [chart.title]
    if chart.definition:
        href = f"#definition-{chart.definition}"
        title += [" ", element("a", "definition", href=href, class_="small")]
    names = ", ".join(series.name for series in chart.series)
    return element(
        "figure",
        element("figcaption", *title),
        element("p", chart.caption, class_="note") if chart.caption else "",
        element("div", class_="legend"),
        element(
            "div",
            class_="plot",
            tabindex=0,
            role="group",
            aria_label=f"{chart.title}: {names}. Arrow keys move the cursor.",
        ),
        element("details", element("summary", "Numbers")),
        data(_spec(chart)),
        class_="chart",
    )


def data(value: Any) -> Markup:
    """A script element with JSON; `<` is escaped, so that the data cannot end the element."""
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    return element("script", Markup(text.replace("<", "\\u003c")), type="application/json")


def plain(value: Any) -> Any:
    """Arrays as lists, floats rounded to `DIGITS` significant digits, null for NaN and infinity."""
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
        "x_label": chart.x_label,
        "y_label": chart.y_label,
        "kind": chart.kind,
        "series": [_series(series) for series in chart.series],
        "rules": [{"y": y, "text": text} for y, text in chart.rules],
        "extents": [{"x": x, "text": text} for x, text in chart.extents],
    }
    for name in ("x_range", "group", "log", "integers", "zero", "diagonal"):
        if getattr(chart, name):
            spec[name] = getattr(chart, name)
    if chart.kind == "bars":
        spec["bar_width"] = chart.bar_width
    return spec


def _series(series: Series) -> dict[str, Any]:
    spec = {name: getattr(series, name) for name in ("name", "color", "x", "y")}
    for name in ("low", "high", "dashed", "hidden", "weight", "scatter", "notes"):
        if getattr(series, name):
            spec[name] = getattr(series, name)
    return spec


def histogram(
    title: str, x_label: str, values: ArrayLike, *, color: str = "recorded", bins: int = 24
) -> Markup:
    """A histogram of the finite values, or a sentence if they are all equal."""
    numbers = np.asarray(values, np.float64)
    numbers = numbers[np.isfinite(numbers)]
    distinct = np.unique(numbers)
    if len(distinct) < 2:
        value = f"{distinct[0]:.4g} in all episodes" if len(distinct) else "none"
        return joined(element("p", f"{title}: {value}.", class_="soft"))
    gap = float(np.diff(distinct).min())
    spread = float(distinct[-1] - distinct[0])
    if spread / gap < bins:  # few values: one bar for each of them
        edges = np.arange(distinct[0] - gap / 2, distinct[-1] + gap, gap)
    else:
        edges = np.linspace(distinct[0], distinct[-1], bins + 1)
    count, edges = np.histogram(numbers, edges)
    centers = (edges[:-1] + edges[1:]) / 2
    series = Series("episodes", color, centers.tolist(), count.astype(float).tolist())
    width = float(edges[1] - edges[0])
    return figure(Chart(title, x_label, "episodes", [series], kind="bars", bar_width=width))
