"""Read scores from files: records of `wmtk eval --json` and CSV tables.

Tables are long (columns game, seed, score) or wide (column game or task, and one per agent), as in
the paper.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from wmtk.errors import ScoreError, UsageError
from wmtk.scores.episode_records import MAX_RETURN, EvaluationRecord
from wmtk.scores.games import BASELINES, PUBLISHED, published, require_game

ENDINGS = (".json", ".jsonl", ".csv")
UNNAMED = "yours"
MAX_BYTES = 64 * 2**20  # of a file
MAX_DIGITS = 1000  # of a number; Python reads at most 4300
_BLANKS = re.compile(r"\s*")
COLUMNS = "The columns must be game,seed,score, or game and one column for each agent."


@dataclass(frozen=True)
class AgentScores:
    """The scores of an agent by game, one per seed, ordered by seed."""

    name: str
    scores: Mapping[str, tuple[float, ...]]
    published: bool = False


@dataclass(frozen=True)
class ScoreEntry:
    """One score and its place in a file."""

    agent: str
    game: str
    seed: str
    value: float
    place: str


@dataclass
class ReadScores:
    """Agents in the order of the files, and remarks on skipped or renamed content."""

    agents: list[AgentScores] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def published_agents() -> list[AgentScores]:
    """The agents of the paper's table; each score is an average over seeds."""
    return [
        AgentScores(title, {game: (value,) for game, value in published(name).items()}, True)
        for name, title in PUBLISHED.items()
    ]


def read_scores(files: Iterable[str | Path]) -> ReadScores:
    """Read files, each given as PATH or NAME=PATH; NAME replaces the agent's name in records."""
    result = ReadScores()
    table: dict[str, dict[str, dict[str, ScoreEntry]]] = {}
    for text in files:
        name, path = _split(text)
        for score in _read_file(path, name, result.notes):
            seeds = table.setdefault(score.agent, {}).setdefault(score.game, {})
            if score.seed in seeds:
                raise ScoreError(
                    f"{score.agent} has two scores in {score.game}{_of_seed(score.seed)}: "
                    f"{seeds[score.seed].place} and {score.place}.",
                    "Give each run a different seed, or name the agents with NAME=FILE.",
                )
            seeds[score.seed] = score
    for agent, games in table.items():
        scores = {
            game: tuple(seeds[seed].value for seed in sorted(seeds, key=_natural))
            for game, seeds in sorted(games.items())
        }
        is_published = _is_published(agent, scores)
        if agent in PUBLISHED.values() and not is_published:
            result.notes.append(f"{agent} is read from the files; it differs from the paper.")
        result.agents.append(AgentScores(agent, scores, is_published))
    return result


def _split(text: str | Path) -> tuple[str, Path]:
    """Split NAME=path; the name is empty if missing."""
    name, equals, path = str(text).partition("=")
    if not equals or Path(text).exists():
        return "", Path(text)
    if not name:
        raise UsageError(f"'{text}' has no name before the '='.", "Write NAME=FILE.")
    return name, Path(path)


def _read_file(path: Path, name: str, notes: list[str]) -> Iterator[ScoreEntry]:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"{path} {what}.", "Give files of scores: .json or .csv.")
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(
            f"{path} has an unsupported file extension.", f"Use one of: {', '.join(ENDINGS)}."
        )
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:  # a sparse file may have gigabytes
            raise ScoreError(f"{path} has {size} bytes; at most {MAX_BYTES} are read.")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ScoreError(f"{path} could not be read: {reason}.") from error
    try:
        if path.suffix.lower() == ".csv":
            yield from _read_csv(text, path, name, notes)
        else:
            yield from _read_json(text, path, name, notes)
    except csv.Error as error:
        raise ScoreError(f"{path} is not a CSV table: {error}.", COLUMNS) from error
    except ScoreError as error:
        if str(path) in error.message:
            raise
        raise ScoreError(f"{path}: {error.message}", error.hint) from error


# --- records ----------------------------------------------------------------------------------


def _read_json(text: str, path: Path, name: str, notes: list[str]) -> Iterator[ScoreEntry]:
    for number, record in enumerate(_documents(text), 1):
        evaluation = EvaluationRecord.from_json(record)
        place = f"{path}, record {number}"
        game = _game(evaluation.task, path, notes)
        if game is not None:
            agent = name or evaluation.agent or UNNAMED
            yield ScoreEntry(
                _titled(agent), game, str(evaluation.seed), fmean(evaluation.returns), place
            )


def _documents(text: str) -> Iterator[Any]:
    """Parse a file with one record, a list of records, or concatenated records."""
    decoder = json.JSONDecoder()
    at = _blanks_end(text, 0)
    if at == len(text):
        raise ScoreError(
            "The file is empty.", "Repeat `wmtk eval --json`; it may have been interrupted."
        )
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise ScoreError(f"Invalid JSON: {error}.", "The file may be truncated.") from error
        yield from document if isinstance(document, list) else [document]
        at = _blanks_end(text, at)


def _blanks_end(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()


# --- tables -----------------------------------------------------------------------------------


def _read_csv(text: str, path: Path, name: str, notes: list[str]) -> Iterator[ScoreEntry]:
    rows = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    header = [cell.strip() for cell in next(rows, [])]
    places = {column.lower(): index for index, column in enumerate(header)}
    if len(places) < len(header):
        raise ScoreError(f"Two columns have the same name: {','.join(header)}.", COLUMNS)
    game_column = places.get("game", places.get("task"))
    long = "score" in places
    if game_column is None or len(header) < 2 or (long and "seed" not in places):
        raise ScoreError(f"The first line is '{','.join(header)}'.", COLUMNS)
    if name and not long:
        raise UsageError(
            f"{path} has one column per agent; a name does not apply.", f"Remove {name}=."
        )
    for row in rows:
        if not any(cell.strip() for cell in row):
            continue
        line = f"{path}, line {rows.line_num}"
        if len(row) != len(header):
            raise ScoreError(f"{line}: {len(row)} cells under {len(header)} columns.", COLUMNS)
        cells = [cell.strip() for cell in row]
        game = _game(cells[game_column], path, notes)
        if game is None:
            continue
        if long:
            yield _long(cells, places, game, name, line)
        else:
            yield from _wide(cells, header, game, game_column, line)


def _long(
    cells: list[str], places: Mapping[str, int], game: str, name: str, line: str
) -> ScoreEntry:
    named = cells[places["agent"]] if "agent" in places else ""
    seed = cells[places["seed"]]
    if not seed:
        raise ScoreError(f"{line}: no seed.", "Number the runs of each game.")
    value = _number(cells[places["score"]], line)
    return ScoreEntry(_titled(name or named or UNNAMED), game, seed, value, line)


def _wide(
    cells: list[str], header: list[str], game: str, game_column: int, line: str
) -> Iterator[ScoreEntry]:
    for index, (column, cell) in enumerate(zip(header, cells, strict=True)):
        if index == game_column or not cell:
            continue
        value = _number(cell, line)
        if column.lower() in BASELINES:
            _check_baseline(column.lower(), game, value, line)
        else:
            yield ScoreEntry(_titled(column), game, "", value, line)


def _check_baseline(column: str, game: str, value: float, line: str) -> None:
    """Raise ScoreError if a reference score differs from the built-in one."""
    expected = published(column)[game]
    if abs(value - expected) > 0.5:  # the paper rounds
        raise ScoreError(
            f"{line}: {column} is {value:g} in {game}, but the built-in reference is {expected:g}.",
            f"Remove the column {column}, or correct it.",
        )


def _number(text: str, line: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) < MAX_RETURN:
        raise ScoreError(f"{line}: '{text}' is not a score.", "Scores are numbers below 1e100.")
    return value


# --- names ------------------------------------------------------------------------------------


def _game(name: str, path: Path, notes: list[str]) -> str | None:
    game = require_game(name)
    if game is None:
        note = f"{path}: {name} is skipped: the paper does not include it."
        if note not in notes:
            notes.append(note)
    return game


def _titled(agent: str) -> str:
    """The spelling of the paper for its agents."""
    return PUBLISHED.get(agent.lower(), agent)


def _is_published(agent: str, scores: Mapping[str, tuple[float, ...]]) -> bool:
    """Whether these are exactly the scores of the paper."""
    name = agent.lower()
    if name not in PUBLISHED:
        return False
    expected = published(name)
    return all(values == (expected[game],) for game, values in scores.items())


def _of_seed(seed: str) -> str:
    return f" with seed {seed}" if seed else ""


def _natural(seed: str) -> tuple[bool, int, str]:
    """Sort key: numbers by value, then other names."""
    number = seed.isdecimal() and len(seed) <= MAX_DIGITS
    return (not number, int(seed) if number else 0, seed)
