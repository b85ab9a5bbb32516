"""Seeded mutations of JSON documents and of bytes, for tests of everything that reads files."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

HUGE = (2**31, 2**63, 2**64, -(2**63), 10**30, 1e308, -1e308)
WORDS = ("", "x", "../x", "/etc/passwd", "0", "\x1b[2J", "[/red]", "\udcff", "é" * 300, "\0")
PLAIN = (None, True, False, 0, 1, -1, 2, 1.5, -0.5, 0.0, *HUGE, *WORDS)
UNSEALABLE = (float("nan"), float("inf"))  # JSON has no such numbers, Python's reader has


def nested(depth: int) -> Any:
    value: Any = 0
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a document with every key or index in it."""
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from places(node[key])


def mutated(document: Any, rng: random.Random, *, sealable: bool = True) -> tuple[Any, str]:
    """A copy of a JSON document with one thing changed, and what was changed."""
    document = copy.deepcopy(document)
    container, key = rng.choice(list(places(document)))
    value = container[key]
    others = list(container) if isinstance(container, dict) else list(range(len(container)))
    how = rng.choice(["put", "put", "put", "tweak", "tweak", "delete", "extra", "swap", "wrap"])
    if how == "put":
        container[key] = rng.choice(_candidates(sealable))
    elif how == "tweak":
        container[key] = _tweaked(value, rng)
    elif how == "delete":
        del container[key]
    elif how == "extra":
        if isinstance(container, dict):
            container["extra"] = copy.deepcopy(value)
        else:
            container.insert(rng.randrange(len(container) + 1), copy.deepcopy(value))
    elif how == "swap":
        other = rng.choice(others)
        container[key], container[other] = container[other], container[key]
    else:
        container[key] = [value]
    return document, f"{how} at {key!r}: {_short(value)} → {_short(container)}"


def _candidates(sealable: bool) -> list[Any]:
    odd = [[], {}, [[]], [{}], [0], ["x"], {"a": 1}, nested(30), nested(150), nested(600)]
    return [*PLAIN, *odd, *(() if sealable else UNSEALABLE)]


def _tweaked(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return int(value or 0)
    if isinstance(value, int | float):
        changes = [
            -value,
            value + 1,
            value - 1,
            value * 1000,
            float(value),
            str(value),
            value + 0.5,
        ]
        return rng.choice([*changes, bool(value)])
    if isinstance(value, str):
        letter = rng.randrange(len(value) + 1)
        return rng.choice(
            [value + "x", value[:-1], value.upper(), value[:letter] + "0" + value[letter + 1 :]]
        )
    if isinstance(value, list):
        return rng.choice([value[:-1], value[1:], value + value, value[::-1], {}, None, value[:1]])
    return rng.choice([{}, [], list(value), None, dict(list(value.items())[:-1])])


def _short(value: Any) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        return "deep nesting"
    return text if len(text) < 80 else f"{text[:77]}…"


def damaged(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Bytes that were flipped, cut, doubled, zeroed or exchanged somewhere."""
    at = rng.randrange(len(data) + 1)
    span = rng.choice([1, 1, 2, 4, 8, 64])
    how = rng.choice(["flip", "flip", "cut", "insert", "zero", "ones", "random", "double", "drop"])
    piece = data[at : at + span]
    new = {
        "flip": data[:at] + bytes(byte ^ (1 << rng.randrange(8)) for byte in piece),
        "zero": data[:at] + bytes(len(piece)),
        "ones": data[:at] + b"\xff" * len(piece),
        "random": data[:at] + rng.randbytes(len(piece)),
    }
    if how in new:
        return new[how] + data[at + span :], f"{how} {span} at {at}"
    if how == "cut":
        return data[:at], f"cut at {at}"
    if how == "insert":
        return data[:at] + rng.randbytes(span) + data[at:], f"insert {span} at {at}"
    if how == "double":
        return data[: at + span] + data[at:], f"double {span} at {at}"
    return data[:at] + data[at + span :], f"drop {span} at {at}"
