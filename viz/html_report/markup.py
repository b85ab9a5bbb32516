"""HTML elements, tables and tiles; plain strings are always escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

VOID = {"img", "input", "meta"}  # elements without content and end tag


class Markup(str):
    """A string of HTML, which `element` and `joined` do not escape."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    """A section of the page with an entry in the table of contents."""

    id: str
    title: str
    content: Markup


def element(tag: str, *children: str, **attributes: str | float | bool | None) -> Markup:
    """An element; `class_` and `data_fps` become class and data-fps; False and None are omitted."""
    parts = [tag]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{html.escape(str(value))}"')
    opening = " ".join(parts)
    if tag in VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Concatenate children; strings that are not markup are escaped."""
    return Markup("".join(x if isinstance(x, Markup) else html.escape(x) for x in children))


def paragraph(*children: str, soft: bool = False) -> Markup:
    return element("p", *children, class_="soft" if soft else None)


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), numbers: int = 0) -> Markup:
    """A table with a name in the first cell of each row; the last `numbers` columns are numeric."""

    def cell(tag: str, text: str, index: int, count: int) -> Markup:
        numeric = index >= count - numbers
        return element(tag, text, class_="number" if numeric else None)

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
    content = element("table", top, element("tbody", *lines))
    return element("div", content, class_="wide")


def tile(name: str, value: str, unit: str = "", note: str = "") -> Markup:
    """A highlighted number with its name, unit and note."""
    parts = [value, element("small", f" {unit}")] if unit else [value]
    return element(
        "div",
        element("div", name, class_="name"),
        element("div", *parts, class_="value"),
        element("div", note, class_="note"),
        class_="tile",
    )


def folded(title: str, *content: str) -> Markup:
    """Content that is collapsed until its title is clicked."""
    return element("details", element("summary", title), *content)
