"""The result of playing some episodes: what `wmtk eval --json` prints and `wmtk scores` reads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from wmtk.scores.aggregates import normalize
from wmtk.scores.errors import ScoreError
from wmtk.scores.games import find_game, references
from wmtk.stats import CONFIDENCE, VALUE_RESAMPLES, bootstrap_interval

FORMAT = "wmtk.eval"
VERSION = 1
LIMIT = 1e100  # of a return: sums and squares of larger ones are not finite


@dataclass(frozen=True)
class ReturnSummary:
    """Returns in a few numbers, beside what is known of the game.

    `std` is that of the returns, dividing by their number; `low` and `high` are the bootstrap
    interval of the mean, None for a single episode. From `game` on all are None but in the paper's
    games; the normalized ones are the mean with random play at 0 and the gamer or the record at 1.
    """

    episodes: int
    mean: float
    std: float
    low: float | None
    high: float | None
    confidence: float
    game: str | None = None
    random: float | None = None
    gamer: float | None = None
    record: float | None = None
    gamer_normalized: float | None = None
    record_normalized: float | None = None


def summarize_returns(
    returns: Sequence[float],
    task: str = "",
    *,
    confidence: float = CONFIDENCE,
    resamples: int = VALUE_RESAMPLES,
    seed: int = 0,
) -> ReturnSummary:
    """Mean, spread and interval of the returns of a task's episodes."""
    numbers = np.asarray(returns, np.float64)
    assert numbers.ndim == 1, numbers.shape
    assert numbers.size, "no episode, no summary"
    interval = bootstrap_interval(numbers, confidence=confidence, resamples=resamples, seed=seed)
    low, high = interval or (None, None)
    mean = float(numbers.mean())
    summary = ReturnSummary(len(numbers), mean, float(numbers.std()), low, high, confidence)
    game = find_game(task)
    if game is None:
        return summary
    random, gamer, record = (column.item() for column in references([game]))
    return dataclasses.replace(
        summary,
        game=game,
        random=random,
        gamer=gamer,
        record=record,
        gamer_normalized=normalize(mean, random, gamer).item(),
        record_normalized=normalize(mean, random, record).item(),
    )


@dataclass(frozen=True)
class Evaluation:
    """Episodes of one policy in one task.

    `seed` is the one that tells this policy from others made in the same way: the seed that it was
    trained with. `eval_seed` is that of the episodes played here.
    """

    task: str
    seed: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...] = ()  # agent steps
    agent: str = ""  # what to call it in a comparison
    run: str | None = None  # the run directory
    eval_seed: int | None = None

    def to_json(
        self, *, confidence: float = CONFIDENCE, resamples: int = VALUE_RESAMPLES
    ) -> dict[str, Any]:
        """The record, with the summary of its returns; docs/scores.md lists the fields."""
        own = dataclasses.asdict(self)
        summary = summarize_returns(
            self.returns, self.task, confidence=confidence, resamples=resamples
        )
        record = {name: own.pop(name) for name in ("task", "agent", "run", "seed", "eval_seed")}
        return {
            "format": FORMAT,
            "version": VERSION,
            **record,
            **dataclasses.asdict(summary),
            **own,
        }

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """Read a record; what it does not need to know it passes over."""
        if not isinstance(record, Mapping):
            raise ScoreError(f"A record must be an object, not {_shown(record)}.", _HINT)
        if record.get("format", FORMAT) != FORMAT:
            raise ScoreError(f"A record has the format {_shown(record['format'])}.", _HINT)
        if _whole(record, "version", VERSION) > VERSION:
            raise ScoreError(
                f"A record has version {record['version']}, this wmtk reads up to {VERSION}.",
                "Upgrade wmtk.",
            )
        missing = [name for name in ("task", "seed", "returns") if name not in record]
        if missing:
            raise ScoreError(f"A record lacks {', '.join(missing)}.", _HINT)
        returns = _returns(record)
        return cls(
            task=_text(record, "task"),
            seed=_whole(record, "seed"),
            returns=returns,
            lengths=_lengths(record, len(returns)),
            agent=_text(record, "agent") if record.get("agent") else "",
            run=_text(record, "run") if record.get("run") else None,
            eval_seed=_whole(record, "eval_seed") if record.get("eval_seed") is not None else None,
        )


_HINT = "A record of `wmtk eval --json` has task, seed, episodes and returns."


def _returns(record: Mapping[str, Any]) -> tuple[float, ...]:
    """The returns, if they are numbers and agree with what else the record says of them."""
    values = record["returns"]
    if not isinstance(values, list) or not values or not all(map(_is_number, values)):
        raise ScoreError(
            f"The returns of {record['task']} must be a list of numbers, not {_shown(values)}.",
            "There must be at least one, and none may be null, NaN, or 1e100 and more.",
        )
    returns = tuple(map(float, values))
    if record.get("episodes", len(returns)) != len(returns):
        raise ScoreError(
            f"A record of {record['task']} has {len(returns)} returns, "
            f"but says {_shown(record['episodes'])} episodes.",
            "Was it cut or edited? Evaluate again.",
        )
    mean = math.fsum(returns) / len(returns)
    stated = record.get("mean", mean)
    if not _is_number(stated) or not math.isclose(stated, mean, rel_tol=1e-6, abs_tol=1e-6):
        raise ScoreError(
            f"A record of {record['task']} says mean {_shown(stated)}, its returns have {mean:g}.",
            "Was it edited? Evaluate again.",
        )
    return returns


def _lengths(record: Mapping[str, Any], episodes: int) -> tuple[int, ...]:
    values = record.get("lengths") or []
    whole = isinstance(values, list) and all(type(value) is int for value in values)
    if not whole or len(values) not in (0, episodes):
        raise ScoreError(
            f"The lengths of {record['task']} must be {episodes} whole numbers, "
            f"one for each return, not {_shown(values)}.",
        )
    return tuple(values)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < LIMIT


def _whole(record: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = record.get(name, default)
    if type(value) is not int:
        raise ScoreError(f"The {name} of a record must be a whole number, not {_shown(value)}.")
    return value


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise ScoreError(f"The {name} of a record must be text, not {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
