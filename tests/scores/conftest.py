"""The paper's tables, as it prints them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

PAPER = Path(__file__).with_name("paper.csv")


@pytest.fixture(scope="session")
def paper_file() -> Path:
    return PAPER


@pytest.fixture(scope="session")
def paper() -> dict[str, dict[str, int]]:
    """The columns of the paper's table of scores, whole numbers by game."""
    with PAPER.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [name for name in rows[0] if name != "task"]
    return {name: {row["task"]: int(row[name]) for row in rows} for name in columns}
