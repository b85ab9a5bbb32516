"""Stdout holds results and nothing else, whatever the code of an environment or policy prints."""

from __future__ import annotations

import os
import sys


def divert_descriptor() -> None:
    """Give sys.stdout a descriptor of its own, and let file descriptor 1 be stderr.

    Libraries in C and processes that are started write to stderr from then on.
    """
    try:
        own = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of the two is closed
        return
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    stream = open(own, "w", encoding=encoding, errors=errors)  # noqa: PTH123, SIM115 — never closed
    sys.stdout = sys.__stdout__ = stream  # type: ignore[misc]


def reserve() -> None:
    """Send what is printed in this process to stderr, except for results, until `release`.

    For commands that run code of others in this process: environments and policies.
    """
    from wmtk.cli.common import console

    console.out.file = sys.stdout
    sys.stdout = sys.__stdout__ = sys.stderr  # type: ignore[misc, assignment]


def release() -> None:
    """Let what is printed go to stdout again."""
    console = sys.modules.get("wmtk.cli.common.console")
    if console is not None and console.out._file is not None:
        sys.stdout = sys.__stdout__ = console.out.file  # type: ignore[misc]
        console.out._file = None  # whatever sys.stdout is when something is printed
