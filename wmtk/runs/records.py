"""Schemas of the documents of a run directory, and the functions that read them.

The functions raise an error with the path for files that are not regular, too large, altered or
invalid.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from wmtk.datasets import Schema
from wmtk.datasets.storage import atomic
from wmtk.documents import Document, FreeForm, problems
from wmtk.errors import CheckpointError, CorruptDatasetError, FormerRunError, RunError, WmtkError

FORMAT = 2  # of run directories; wmtk.runs.conversion converts format 1
HINT = "Restore the file from a copy of the run directory, or start a new run."
MAX_BYTES = 2**24  # of run.json, config.yaml and other documents
MAX_METRICS_BYTES = 2**32
MAX_LINE_BYTES = 2**20  # of one report; a line of a malicious sparse file could have gigabytes


def _as_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("is not a path")
    os.fsencode(text)  # raises ValueError if the file system cannot represent the name
    return text


def _as_schema(value: dict[str, Any]) -> dict[str, Any]:
    try:
        Schema.from_json(value)
    except WmtkError as error:
        raise ValueError(error.message) from error
    return value


PathText = Annotated[str, AfterValidator(_as_path)]
Count = Annotated[int, Field(ge=0, lt=2**53)]


def read_file(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file of a run directory."""
    return b"".join(_blocks(path, limit))


def _blocks(path: Path, limit: int) -> Iterator[bytes]:
    try:
        yield from atomic.read_blocks(path, limit=limit)
    except CorruptDatasetError as error:
        raise RunError(error.message, HINT) from error
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}).", HINT) from error


def _split(path: Path) -> Iterator[tuple[bytes, bool]]:
    """The lines of a file, and whether each of them ends with a newline."""
    last = b""
    for block in _blocks(path, MAX_METRICS_BYTES):
        *lines, last = (last + block).split(b"\n")
        yield from ((line, True) for line in lines)
        if len(last) > MAX_LINE_BYTES:
            message = f"{path} has a line of more than {MAX_LINE_BYTES} bytes."
            raise RunError(message, HINT)
    if last:
        yield last, False


class RunDocument(Document):
    """Base of the documents of a run."""

    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        return RunError(message, hint)

    @classmethod
    def open(cls, path: Path) -> tuple[Self, dict[str, Any]]:
        """Read a document with a checksum; returns it validated, and as plain data."""
        content = cls.content(path)
        return cls.read(content, path, HINT), content

    @classmethod
    def content(cls, path: Path) -> dict[str, Any]:
        """Read a document as plain data; verifies its checksum, not its schema."""
        data = read_file(path)
        try:
            return atomic.verify_checksum(atomic.parse_json(data, path), path)
        except CorruptDatasetError as error:
            raise cls.corrupt(error.message, HINT, path) from error


class SourceRecord(RunDocument):
    """A source of a run's data."""

    path: PathText
    id: str
    version: Count
    weight: Annotated[float, Field(gt=0)]
    episodes: Count
    steps: Count
    selection: str


class OriginRecord(RunDocument):
    """The run from which the networks of a run were initialized."""

    run: PathText
    step: Count
    hash: str


class RunRecord(RunDocument):
    """run.json."""

    format: Annotated[int, Field(ge=1)]
    kind: Literal["model", "policy", "online"]
    created: str
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    data: list[SourceRecord]
    arrays: Annotated[FreeForm, Field(alias="schema"), AfterValidator(_as_schema)]
    env: FreeForm
    val_fraction: Annotated[float, Field(ge=0, lt=1)] | None = None
    steps: Count | None = None
    init: OriginRecord | None = None
    model: OriginRecord | None = None
    sealed_config: bool = False  # whether config.yaml has a checksum; False for older runs

    @classmethod
    def read(cls, content: Any, path: Path, hint: str = "") -> Self:
        written = content.get("format") if isinstance(content, dict) else None
        if type(written) is int and written > FORMAT:
            raise RunError(f"{path.parent} was made by a newer wmtk.", "pip install --upgrade wmtk")
        if type(written) is int and 1 <= written < FORMAT:
            raise FormerRunError(
                f"{path.parent} was made by an earlier version of wmtk, with other names for "
                "settings, tensors and metrics.",
                f"Convert it: wmtk convert {shlex.quote(str(path.parent))}",
            )
        return super().read(content, path, hint)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.kind == "model" and self.val_fraction is None:
            raise ValueError("a model run needs val_fraction")
        if self.kind == "policy" and self.model is None:
            raise ValueError("a policy run needs model")
        return self


class ReplayCounts(RunDocument):
    """replay.json: the numbers of episodes and steps added so far, including evicted ones."""

    episodes: Count
    steps: Count


class SamplerState(RunDocument):
    """The position of the sampler."""

    seed: int
    step: Count


class TrainingState(RunDocument):
    """The state of training in a checkpoint, without the tensors."""

    sampler: SamplerState
    best: float | None
    steps: Count  # requested updates
    config: FreeForm
    agent_steps: Count | None = None  # requested steps of an online run
    owes_test: bool = False  # whether the evaluation at this update was interrupted

    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        return CheckpointError(message, hint)


class CheckpointRecord(RunDocument):
    """state.json of a checkpoint."""

    step: Count
    sha256: str
    bytes: Count | None = None  # of the tensors; older checkpoints lack it
    state: FreeForm

    @classmethod
    def corrupt(cls, message: str, hint: str, path: Path) -> WmtkError:
        return CheckpointError(message, hint)


class MetricsLine(RunDocument, extra="allow"):
    """A line of metrics.jsonl: an update, and values by name; NaN and infinity are None."""

    __pydantic_extra__: dict[str, float | None]
    step: Count

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        values = self.__pydantic_extra__
        for name, others in _TOGETHER.items():
            if values.get(name) is not None:
                for other in others:
                    if values.get(other) is None:
                        raise ValueError(f"{name} without {other}")
        return self


_TOGETHER = {
    "eval/return": ("eval/return_std", "eval/return_min", "eval/return_max", "eval/length"),
    "val/loss/total": ("val/loss/constant_free",),
}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; an incomplete last line, as after a crash, is ignored."""
    if not os.path.lexists(path):
        return []
    reports = []
    for number, (line, ended) in enumerate(_split(path), 1):
        try:
            values = json.loads(line)
            MetricsLine.model_validate(values)
        except (ValidationError, ValueError, RecursionError) as error:
            if not ended:
                break
            what = problems(error) if isinstance(error, ValidationError) else "it is not JSON."
            hint = "Delete this line to read the others, or restore the file from a copy."
            raise RunError(f"{path}, line {number}, is damaged: {what}", hint) from error
        reports.append(values)
    return reports
