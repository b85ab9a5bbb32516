"""Short representations of objects with arrays: dtype and shape instead of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

MAX_LENGTH = 1000  # characters
TEXT, ITEMS = 80, 8  # characters of a value, items of a collection


def brief_repr(self: Any, **first: Any) -> str:
    """`Class(field=value, …)` of a dataclass or named tuple, with `first` before its fields.

    >>> import numpy as np
    >>> from wmtk.agent.outputs import LatentState
    >>> LatentState(np.zeros((2, 8), np.float32), np.zeros((2, 3), np.int16))
    LatentState(deter=float32[2, 8], codes=int16[2, 3])
    """
    values = first | _fields(self)
    text = ", ".join(f"{name}={brief(value)}" for name, value in values.items())
    return _cut(f"{type(self).__name__}({text}", MAX_LENGTH - 1) + ")"


def brief(value: Any) -> str:
    """The representation of a value on at most about one line."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, Mapping):
        items = [f"{_cut(repr(key), TEXT)}: {brief(item)}" for key, item in _some(value.items())]
        return "{" + ", ".join(items) + _more(value) + "}"
    if type(value) in (list, tuple):
        text = ", ".join(brief(item) for item in _some(value)) + _more(value)
        return f"[{text}]" if isinstance(value, list) else f"({text})"
    if is_dataclass(value) or hasattr(value, "_fields"):
        return repr(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return _cut(repr(value), TEXT)


def _fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "_fields", None) or [f.name for f in fields(value) if f.repr]
    return {name: getattr(value, name) for name in names}


def _some(values: Any) -> list[Any]:
    return [item for _, item in zip(range(ITEMS), values, strict=False)]


def _more(values: Any) -> str:
    return f", … {len(values)} in total" if len(values) > ITEMS else ""


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
