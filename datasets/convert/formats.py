"""The interface of converters: formats, import sources, losses and reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema

Progress = Callable[[int, int], None]  # (episodes done, total episodes)


class Losses:
    """Remarks on lost information, each listed once; `{n}` stands for the sum of its counts."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, sentence: str, count: int = 1) -> None:
        if count:
            self._counts[sentence] = self._counts.get(sentence, 0) + count

    def sentences(self) -> tuple[str, ...]:
        return tuple(text.replace("{n}", f"{n:,}") for text, n in self._counts.items())


@dataclass
class ImportSource:
    """A dataset of another format that is open for reading."""

    schema: Schema
    total: int  # episodes
    episodes: Iterator[Episode]  # read one at a time
    losses: Losses  # extended while the episodes are read
    env: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """Another format. Keyword-only parameters of `read` and `write` are its options."""

    name: str
    description: str
    alignment: str  # the rows of an episode in the format
    cannot_hold: str
    recognizes: Callable[[Path], bool]
    read: Callable[..., AbstractContextManager[ImportSource]]  # (path, **options)
    # (dataset, target, episodes, losses, **options): creates the file or folder `target`
    write: Callable[..., None]
    locate: Callable[[str], Path] = Path  # the path of a source given by id

    @property
    def import_options(self) -> dict[str, Any]:
        """The options of an import with their defaults."""
        return _options(self.read)

    @property
    def export_options(self) -> dict[str, Any]:
        """The options of an export with their defaults."""
        return _options(self.write)


def _options(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


@dataclass(frozen=True)
class ImportReport:
    """The result of an import; `losses` lists the differences to the source."""

    format: str
    path: Path
    episodes: int
    steps: int
    losses: tuple[str, ...]


@dataclass(frozen=True)
class ExportReport:
    """The result of an export; `losses` lists what the format cannot represent."""

    format: str
    path: Path
    episodes: int
    steps: int
    losses: tuple[str, ...]


# The argument of `Format.write`, iterated once; reports progress.
Episodes = Iterator[Episode]
