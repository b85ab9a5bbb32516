"""docs/custom-models.md: every file and command on it works as it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import wmtk
from wmtk.errors import RunError
from wmtk.models.world_model import WorldModel

from .conftest import DOCS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reader(read: Callable[[str], Any]) -> Any:
    return read("custom-models.md")


def test_the_runs_record_their_class(reader: Any) -> None:
    for name in ("model", "policy"):
        about = json.loads((reader.folder / "runs" / name / "run.json").read_text())
        assert about["world_model"] == "my_models:SmallModel"
    with pytest.raises(RunError, match="trained with the class my_models:SmallModel, not with"):
        wmtk.load(reader.folder / "runs" / "model")


def test_every_method_of_the_table_exists() -> None:
    page = (DOCS / "custom-models.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    names = [row.removeprefix("| `").partition("(")[0] for row in rows]
    assert len(names) == 10
    assert all(callable(getattr(WorldModel, name)) for name in names)
