"""HTML from Python: elements, tables and tiles, in which plain text cannot become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

VOID = {"img", "input", "meta"}  # elements without content or end


class Markup(str):
    """Text that is HTML already; any other string is escaped when it becomes part of an element."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    """A part of the page, with a line in the table of contents."""

    id: str
    title: str
    content: Markup


def element(tag: str, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element; `class_` and `data_fps` become class and data-fps, False and None leave out."""
    written = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        written.append(key if value is True else f'{key}="{html.escape(str(value))}"')
    opening = " ".join([tag, *written])
    if tag in VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Pieces one after the other, text escaped."""
    return Markup("".join(x if isinstance(x, Markup) else html.escape(x) for x in children))


def paragraph(*children: str, soft: bool = False) -> Markup:
    return element("p", *children, class_="soft" if soft else None)


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), numbers: int = 0) -> Markup:
    """Rows whose first cell names them; the last `numbers` columns stand to the right."""

    def cell(tag: str, text: str, index: int, count: int) -> Markup:
        right = index >= count - numbers
        return element(tag, text, class_="number" if right else None)

    lines = []
    for row in rows:
        cells = [
            cell("td" if index else "th", text, index, len(row)) for index, text in enumerate(row)
        ]
        lines.append(element("tr", *cells))
    top = Markup("")
    if head:
        cells = [cell("th", text, index, len(head)) for index, text in enumerate(head)]
        top = element("thead", element("tr", *cells))
    whole = element("table", top, element("tbody", *lines))
    return element("div", whole, class_="wide")


def tile(name: str, value: str, unit: str = "", note: str = "") -> Markup:
    """A number that stands out."""
    shown = [value, element("small", f" {unit}")] if unit else [value]
    return element(
        "div",
        element("div", name, class_="name"),
        element("div", *shown, class_="value"),
        element("div", note, class_="note"),
        class_="tile",
    )


def folded(title: str, *content: str) -> Markup:
    """Something that is shown when it is asked for."""
    return element("details", element("summary", title), *content)
