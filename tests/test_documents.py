"""Schemas of documents: strict, and errors that name the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmtk.documents import Document
from wmtk.errors import CorruptDatasetError, RunError, WmtkError


class Counted(Document):
    steps: int


class CountedInRun(Counted):
    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        return RunError(message, hint)


@pytest.mark.parametrize("content", [{"steps": True}, {"steps": 1.5}, {}, [], None, 3])
def test_a_wrong_type_is_refused_with_the_name_of_the_file(content) -> None:
    with pytest.raises(CorruptDatasetError, match=r"here\.json is not a valid Counted"):
        Counted.read(content, Path("here.json"))


def test_a_subclass_chooses_its_error() -> None:
    assert CountedInRun.read({"steps": 2, "newer": 1}, Path("x")).steps == 2
    with pytest.raises(RunError, match="steps: Field required"):
        CountedInRun.read({}, Path("x"))
