"""The version of the code, which is stored with datasets and runs."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

import wmtk


@functools.cache
def code_version() -> str:
    """The version of the package; in a git checkout with the commit, and -dirty if modified."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return wmtk.__version__
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return wmtk.__version__
    return f"{wmtk.__version__}+{commit.stdout.strip()}"
