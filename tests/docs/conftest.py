"""Runs pages of the documentation: writes their files and runs their commands, in order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (\S+\.(?:py|toml))\n")
NUMBER = re.compile(r"-?\d[\d,.]*")


@dataclass(frozen=True)
class Block:
    """A fenced block: a file, named in its first comment, or commands."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        found = NAME.match(self.text)
        return found[1] if found else None

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Each command with the lines of output below it."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            yield command, shown


def blocks(page: str) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall((DOCS / page).read_text())]


def plain(line: str) -> str:
    """The line without numbers and column widths, which differ between machines."""
    return " ".join(NUMBER.sub("0", line).split())


@dataclass
class Reader:
    """Runs the blocks of a page in an empty folder."""

    folder: Path
    ran: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    def follow(self, page: str) -> None:
        for block in blocks(page):
            if block.file:
                (self.folder / block.file).write_text(block.text)
            elif block.language == "console":
                for command, shown in block.commands():
                    self.run(command, shown)

    def run(self, command: str, shown: list[str]) -> None:
        done = subprocess.run(
            self._arguments(command),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=900,  # enough on a busy machine
            env=os.environ | {"PYTHONPATH": str(self.folder / "site"), "COLUMNS": "92"},
        )
        self.ran[command] = done
        printed = done.stdout + done.stderr
        lines = [plain(line) for line in printed.splitlines()]
        for line in shown:
            assert line.strip() == "…" or plain(line) in lines, f"{command}\n{line}\n{printed}"
        failed = any(line.startswith("error: ") for line in shown)
        assert (done.returncode != 0) == failed, f"{command}\n{printed}"

    def _arguments(self, command: str) -> list[str]:
        name, *rest = shlex.split(command)
        if name == "wmtk":
            # -P as in the installed script, which does not import from the current folder.
            return [sys.executable, "-P", "-m", "wmtk", *rest]
        if name == "python":
            return [sys.executable, *rest]
        assert (name, rest) == ("pip", ["install", "."]), command
        # Without a network, and not into the environment that runs the tests.
        options = ("--no-build-isolation", "--no-deps", "--no-index", "--target", "site", "--quiet")
        return [sys.executable, "-m", "pip", "install", *options, "."]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Reader]:
    """Runs a page from its beginning to its end."""

    def follow(page: str) -> Reader:
        reader = Reader(tmp_path_factory.mktemp("reader"))
        reader.follow(page)
        return reader

    return follow
