"""Text on a terminal that may hold anything: a name, a path, a note or an exception from a file.

Control characters move the cursor, change what was printed before, or reverse what is read; they
are shown as escapes such as \\x1b.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

# C0 (but tabs and line feeds), DEL, C1, marks and overrides of the direction of text, separators
# of lines, surrogates (bytes of a path that are not UTF-8), and characters that are invisible.
_CONTROL = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
UNSAFE = re.compile(f"[{_CONTROL}]")
_UNSAFE_IN_LINE = re.compile(rf"[{_CONTROL}\t\n]")


def escaped(text: str) -> str:
    """The text with escapes instead of control characters, but tabs and line feeds."""
    return UNSAFE.sub(_escape, text)


def one_line(text: str) -> str:
    """The same without tabs and line feeds: for a name."""
    return _UNSAFE_IN_LINE.sub(_escape, text)


def indented(text: str) -> str:
    """The same with further lines indented: none of them can pass for a message of its own."""
    return escaped(text).replace("\n", "\n  ")


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class _SafeStream:
    """A standard stream for everything that is printed by others: warnings, logs, tracebacks."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream  # where rich's consoles write to, with their own codes
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
    """Escape what is written to sys.stdout and sys.stderr from now on.

    So is what goes past them, to the streams that the interpreter started with.
    """
    sys.stdout, sys.stderr = _SafeStream(sys.stdout), _SafeStream(sys.stderr)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc, assignment]


@contextmanager
def safe_streams() -> Iterator[None]:
    """The same while the block runs."""
    before = sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__
    make_streams_safe()
    try:
        yield
    finally:
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = before  # type: ignore[misc]
