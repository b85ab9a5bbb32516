"""Escape control characters in untrusted text (names, paths, messages) for terminals.

Control characters can move the cursor, overwrite earlier output or reverse the text. They are
printed as escapes such as \\x1b.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

# C0 (except tabs and line feeds), DEL, C1, direction marks and overrides, line separators,
# surrogates (bytes of a path that are not UTF-8), and invisible characters.
_CONTROL = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
UNSAFE = re.compile(f"[{_CONTROL}]")
_UNSAFE_IN_LINE = re.compile(rf"[{_CONTROL}\t\n]")


def escaped(text: str) -> str:
    """Escape all control characters except tabs and line feeds."""
    return UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """Escape all control characters."""
    return _UNSAFE_IN_LINE.sub(_escape, text)


def indented(text: str) -> str:
    """Like `escaped`, with continuation lines indented to distinguish them from other messages."""
    return escaped(text).replace("\n", "\n  ")


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class _SafeStream:
    """Wraps a standard stream and escapes what is written: warnings, logs, tracebacks."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # rich writes terminal codes to this attribute
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_streams_safe() -> None:
    """Escape what is written to sys.stdout and sys.stderr, also to their original streams."""
    sys.stdout, sys.stderr = _SafeStream(sys.stdout), _SafeStream(sys.stderr)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc, assignment]


@contextmanager
def safe_streams() -> Iterator[None]:
    """A context in which `make_streams_safe` applies."""
    original = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    make_streams_safe()
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = original  # type: ignore[misc]
