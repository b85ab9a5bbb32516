"""What a converter is made of: a format, what it gives for an import, what it reports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wmtk.datasets.episode import Episode
from wmtk.datasets.schema import Schema

Progress = Callable[[int, int], None]  # (episodes done, episodes in all)


class Losses:
    """Sentences on what one side could not hold: each once, counts summed into '{n}'."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, sentence: str, count: int = 1) -> None:
        if count:
            self._counts[sentence] = self._counts.get(sentence, 0) + count

    def sentences(self) -> tuple[str, ...]:
        return tuple(text.replace("{n}", f"{n:,}") for text, n in self._counts.items())


@dataclass
class Source:
    """A foreign dataset that is open for reading."""

    schema: Schema
    total: int  # episodes
    episodes: Iterator[Episode]  # one at a time, so that memory stays bounded
    losses: Losses  # grows while the episodes are read
    env: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """A foreign format. Keyword-only parameters of `read` and `write` are its options."""

    name: str
    description: str
    alignment: str  # the rows of an episode, as the format has them
    cannot_hold: str
    recognizes: Callable[[Path], bool]
    read: Callable[..., AbstractContextManager[Source]]  # (path, **options)
    # (dataset, target, episodes, losses, **options): writes a file or folder that is not there
    write: Callable[..., None]
    locate: Callable[[str], Path] = Path  # the path that a user's `source` stands for

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
    """What an import brought; `losses` says what is not as it was in the source."""

    format: str
    path: Path
    episodes: int
    steps: int
    losses: tuple[str, ...]


@dataclass(frozen=True)
class ExportReport:
    """What an export wrote; `losses` says what the format could not hold."""

    format: str
    path: Path
    episodes: int
    steps: int
    losses: tuple[str, ...]


# What `Format.write` gets to iterate over, once: counts progress while it is consumed.
Episodes = Iterator[Episode]
