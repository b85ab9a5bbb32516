"""Evaluation records: the JSON that `wmtk eval` writes and `wmtk scores` reads."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from wmtk.errors import ScoreError
from wmtk.scores.aggregates import normalize
from wmtk.scores.games import find_game, references
from wmtk.stats import CONFIDENCE, VALUE_RESAMPLES, bootstrap_interval

FORMAT = "wmtk.eval"
VERSION = 1
MAX_RETURN = 1e100  # sums of squares of larger returns are not finite


@dataclass(frozen=True)
class ReturnSummary:
    """Statistics of returns, and the reference scores of the game.

    `std` is the population standard deviation; `low` and `high` are the bootstrap interval of the
    mean, None for a single episode. The fields from `game` on are None for tasks other than the
    paper's games; normalized scores are 0 for random play and 1 for the gamer or the record.
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
    """Mean, standard deviation and bootstrap interval of the returns (N,) of a task."""
    numbers = np.asarray(returns, np.float64)
    assert numbers.ndim == 1, numbers.shape
    assert numbers.size, "no episode"
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
class EvaluationRecord:
    """Returns of one policy in one task.

    `seed` is the seed of the training run, which distinguishes repetitions of an experiment;
    `eval_seed` is the seed of the evaluation episodes.
    """

    task: str
    seed: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...] = ()  # agent steps
    agent: str = ""  # name in a comparison
    run: str | None = None  # the run directory
    eval_seed: int | None = None

    def to_json(
        self, *, confidence: float = CONFIDENCE, resamples: int = VALUE_RESAMPLES
    ) -> dict[str, Any]:
        """The record with the summary of its returns, as documented in docs/scores.md."""
        fields = dataclasses.asdict(self)
        summary = summarize_returns(
            self.returns, self.task, confidence=confidence, resamples=resamples
        )
        record = {name: fields.pop(name) for name in ("task", "agent", "run", "seed", "eval_seed")}
        return {
            "format": FORMAT,
            "version": VERSION,
            **record,
            **dataclasses.asdict(summary),
            **fields,
        }

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """Validate a record; unknown fields are ignored."""
        if not isinstance(record, Mapping):
            raise ScoreError(f"A record must be an object, not {_repr(record)}.", _HINT)
        if record.get("format", FORMAT) != FORMAT:
            raise ScoreError(f"A record has the format {_repr(record['format'])}.", _HINT)
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
    """The returns, checked against `episodes` and `mean` of the record."""
    values = record["returns"]
    if not isinstance(values, list) or not values or not all(map(_is_number, values)):
        raise ScoreError(
            f"The returns of {record['task']} must be a list of numbers, not {_repr(values)}.",
            "Give at least one; null, NaN and values from 1e100 on are invalid.",
        )
    returns = tuple(map(float, values))
    if record.get("episodes", len(returns)) != len(returns):
        raise ScoreError(
            f"A record of {record['task']} has {len(returns)} returns, "
            f"but episodes is {_repr(record['episodes'])}.",
            "The record may be truncated or edited: evaluate again.",
        )
    mean = math.fsum(returns) / len(returns)
    stated = record.get("mean", mean)
    if not _is_number(stated) or not math.isclose(stated, mean, rel_tol=1e-6, abs_tol=1e-6):
        raise ScoreError(
            f"A record of {record['task']} has the mean {_repr(stated)}; that of its returns is "
            f"{mean:g}.",
            "The record may be edited: evaluate again.",
        )
    return returns


def _lengths(record: Mapping[str, Any], episodes: int) -> tuple[int, ...]:
    values = record.get("lengths") or []
    whole = isinstance(values, list) and all(type(value) is int for value in values)
    if not whole or len(values) not in (0, episodes):
        raise ScoreError(
            f"The lengths of {record['task']} must be {episodes} whole numbers, "
            f"one for each return, not {_repr(values)}.",
        )
    return tuple(values)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < MAX_RETURN


def _whole(record: Mapping[str, Any], name: str, default: int = 0) -> int:
    value = record.get(name, default)
    if type(value) is not int:
        raise ScoreError(f"The {name} of a record must be a whole number, not {_repr(value)}.")
    return value


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record[name]
    if not isinstance(value, str):
        raise ScoreError(f"The {name} of a record must be text, not {_repr(value)}.")
    return value


def _repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
