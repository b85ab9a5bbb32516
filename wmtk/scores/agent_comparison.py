"""Compare agents by the four aggregates over the games that all of them have scores in."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.errors import ScoreError, UsageError
from wmtk.scores.aggregates import aggregate, aggregate_intervals, normalize
from wmtk.scores.games import games as all_games
from wmtk.scores.games import references
from wmtk.scores.score_files import AgentScores
from wmtk.stats import CONFIDENCE, VALUE_RESAMPLES

MAX_LISTED = 12  # games named in a note


@dataclass(frozen=True)
class AggregateScore:
    """An aggregate and its interval, which is None for a single seed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class GameResult:
    """The mean over all seeds in one game, raw and normalized."""

    score: float
    seeds: int
    gamer: float
    record: float


@dataclass(frozen=True)
class AgentResult:
    name: str
    published: bool
    seeds: int  # aggregated ones; 1 for published averages
    protocols: dict[str, AggregateScore]
    games: dict[str, GameResult]


@dataclass(frozen=True)
class Comparison:
    """`games` are the aggregated ones; `missing` lists, by agent, the games without a score."""

    games: tuple[str, ...]
    missing: dict[str, tuple[str, ...]]
    agents: tuple[AgentResult, ...]
    confidence: float
    resamples: int
    bootstrap_seed: int
    over_games: bool
    notes: tuple[str, ...]

    def agent(self, name: str = "") -> AgentResult:
        """The agent of that name, by default the first."""
        for agent in self.agents:
            if not name or agent.name.lower() == name.lower():
                return agent
        names = ", ".join(agent.name for agent in self.agents)
        raise UsageError(f"There is no agent '{name}'.", f"There are: {names}.")


@dataclass(frozen=True)
class Differences:
    """The difference between two agents in gamer normalized score, by game."""

    agent: str
    other: str
    games: tuple[str, ...]  # from the largest advantage to the largest disadvantage
    values: NDArray[np.float64]


def compare(
    agents: Sequence[AgentScores],
    *,
    over_games: bool = False,
    confidence: float = CONFIDENCE,
    resamples: int = VALUE_RESAMPLES,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> Comparison:
    """Aggregate the scores of agents over the games in which all of them have scores.

    The notes of the result are `notes`, then remarks on missing games and unequal seeds.
    """
    assert agents, "no agents"
    common = tuple(g for g in all_games() if all(g in agent.scores for agent in agents))
    if not common:
        counts = ", ".join(f"{agent.name} has {len(agent.scores)}" for agent in agents)
        raise ScoreError("No game has a score of every agent.", f"Of the 55 games, {counts}.")
    missing = {
        agent.name: tuple(g for g in all_games() if g not in agent.scores) for agent in agents
    }
    intervals = partial(
        aggregate_intervals,
        over_games=over_games,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
    )
    results = []
    for agent in agents:
        table = _table(agent, common)
        bounds = intervals(table, references(common)) if len(table) > 1 or over_games else {}
        protocols = {
            name: AggregateScore(value, *bounds.get(name, ()))
            for name, value in aggregate(table, references(common)).items()
        }
        by_game = {game: _game_result(game, agent.scores[game]) for game in common}
        results.append(AgentResult(agent.name, agent.published, len(table), protocols, by_game))
    return Comparison(
        games=common,
        missing=missing,
        agents=tuple(results),
        confidence=confidence,
        resamples=resamples,
        bootstrap_seed=seed,
        over_games=over_games,
        notes=(*notes, *_notes(agents, common)),
    )


def differences(comparison: Comparison, agent: AgentResult) -> list[Differences]:
    """The differences between `agent` and each of the others."""
    results = []
    for other in comparison.agents:
        if other is agent:
            continue
        gaps = {game: agent.games[game].gamer - other.games[game].gamer for game in agent.games}
        order = sorted(gaps, key=lambda game: -gaps[game])
        values = np.array([gaps[game] for game in order])
        results.append(Differences(agent.name, other.name, tuple(order), values))
    return results


def aggregate_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per agent and protocol."""
    return [
        {
            "agent": agent.name,
            "protocol": protocol,
            "value": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "seeds": agent.seeds,
            "games": len(comparison.games),
            "published": agent.published,
        }
        for agent in comparison.agents
        for protocol, estimate in agent.protocols.items()
    ]


def game_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per agent and game."""
    known = {game: references([game]) for game in comparison.games}
    return [
        {
            "agent": agent.name,
            "game": game,
            "seeds": result.seeds,
            "score": result.score,
            "random": known[game].random.item(),
            "gamer": known[game].gamer.item(),
            "record": known[game].record.item(),
            "gamer_normalized": result.gamer,
            "record_normalized": result.record,
            "published": agent.published,
        }
        for agent in comparison.agents
        for game, result in agent.games.items()
    ]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as CSV; None becomes an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _table(agent: AgentScores, games: Sequence[str]) -> NDArray[np.float64]:
    """Scores (S, G); S is the smallest number of seeds of any game."""
    # Runs of different games are independent, so their seeds can be paired in any order.
    seeds = min(len(agent.scores[game]) for game in games)
    return np.array([agent.scores[game][:seeds] for game in games]).T


def _game_result(game: str, scores: Sequence[float]) -> GameResult:
    mean = float(np.mean(scores))
    random, gamer, record = (column.item() for column in references([game]))
    normalized = (normalize(mean, random, best).item() for best in (gamer, record))
    return GameResult(mean, len(scores), *normalized)


def _notes(agents: Sequence[AgentScores], common: tuple[str, ...]) -> list[str]:
    """Remarks on missing games and unequal numbers of seeds."""
    notes: list[str] = []
    total = len(all_games())
    if len(common) == total:
        notes.append(f"Games: all {total} of the paper.")
    else:
        without = [game for game in all_games() if game not in common]
        few = len(common) <= len(without)
        which = f"only {_listed(common)}" if few else f"all but {_listed(without)}"
        notes.append(
            f"Games: {len(common)} of the paper's {total}, {which}. All agents here are compared "
            "over these, so the numbers are not those of the paper's Table 1."
        )
    for agent in agents:
        absent = [g for g in _union(agents) if g not in agent.scores]
        if absent and len(agents) > 1 and not agent.published:
            notes.append(f"{agent.name} has no score in {_listed(absent)}.")
        counts = {game: len(agent.scores[game]) for game in common}
        fewest, most = min(counts.values()), max(counts.values())
        if fewest < most:
            short = [game for game in common if counts[game] == fewest]
            notes.append(
                f"{agent.name} has up to {most} seeds, but only {fewest} in {_listed(short)}: the "
                f"first {fewest} of every game are aggregated."
            )
    return notes


def _union(agents: Sequence[AgentScores]) -> list[str]:
    """Games that any unpublished agent has a score in."""
    own = [agent for agent in agents if not agent.published]
    return [game for game in all_games() if any(game in agent.scores for agent in own)]


def _listed(games: Sequence[str]) -> str:
    more = len(games) - MAX_LISTED
    names = ", ".join(games[:MAX_LISTED])
    return f"{names} and {more} more" if more > 0 else names
