"""Agents side by side: the four aggregates of each over the games that all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from wmtk.errors import UsageError
from wmtk.scores.aggregates import aggregate, aggregate_intervals, normalize
from wmtk.scores.errors import ScoreError
from wmtk.scores.games import games as all_games
from wmtk.scores.games import references
from wmtk.scores.reading import AgentScores
from wmtk.stats import CONFIDENCE, VALUE_RESAMPLES

LISTED = 12  # names of games in a sentence


@dataclass(frozen=True)
class Estimate:
    """An aggregate; without an interval if there is a single seed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class GameResult:
    """The mean over all seeds in one game, as it is and normalized."""

    score: float
    seeds: int
    gamer: float
    record: float


@dataclass(frozen=True)
class AgentResult:
    name: str
    published: bool
    seeds: int  # that were aggregated; 1 for averages
    protocols: dict[str, Estimate]
    games: dict[str, GameResult]


@dataclass(frozen=True)
class Comparison:
    """`games` are those that were aggregated; `missing` has, by agent, the paper's others."""

    games: tuple[str, ...]
    missing: dict[str, tuple[str, ...]]
    agents: tuple[AgentResult, ...]
    confidence: float
    resamples: int
    bootstrap_seed: int
    over_games: bool
    notes: tuple[str, ...]

    def agent(self, name: str = "") -> AgentResult:
        """An agent by name; by default the first, which is the user's if there is one."""
        for agent in self.agents:
            if not name or agent.name.lower() == name.lower():
                return agent
        names = ", ".join(agent.name for agent in self.agents)
        raise UsageError(f"There is no agent '{name}'.", f"There are: {names}.")


@dataclass(frozen=True)
class Differences:
    """How much better one agent is than another, in gamer normalized scores by game."""

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
    """Aggregate the scores of agents over the games that all of them have.

    `notes` are sentences for the reader, to which those on missing games and seeds are added.
    """
    assert agents, "no agents"
    common = tuple(g for g in all_games() if all(g in agent.scores for agent in agents))
    if not common:
        counts = ", ".join(f"{agent.name} has {len(agent.scores)}" for agent in agents)
        raise ScoreError("No game has a score of every agent.", f"Of the 55 games {counts}.")
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
        found = intervals(table, references(common)) if len(table) > 1 or over_games else {}
        protocols = {
            name: Estimate(value, *found.get(name, ()))
            for name, value in aggregate(table, references(common)).items()
        }
        by_game = {game: _game_result(game, agent.scores[game]) for game in common}
        results.append(AgentResult(agent.name, agent.published, len(table), protocols, by_game))
    told = (*notes, *_notes(agents, common))
    return Comparison(
        common, missing, tuple(results), confidence, resamples, seed, over_games, told
    )


def differences(comparison: Comparison, agent: AgentResult) -> list[Differences]:
    """One agent against each of the others, as in the paper's bar chart."""
    found = []
    for other in comparison.agents:
        if other is agent:
            continue
        gaps = {game: agent.games[game].gamer - other.games[game].gamer for game in agent.games}
        order = sorted(gaps, key=lambda game: -gaps[game])
        values = np.array([gaps[game] for game in order])
        found.append(Differences(agent.name, other.name, tuple(order), values))
    return found


def _table(agent: AgentScores, games: Sequence[str]) -> NDArray[np.float64]:
    """Scores (S, G), with as many seeds as every game has."""
    # Runs of different games have nothing to do with each other: any seed of one may stand beside
    # any of another.
    seeds = min(len(agent.scores[game]) for game in games)
    return np.array([agent.scores[game][:seeds] for game in games]).T


def _game_result(game: str, scores: Sequence[float]) -> GameResult:
    mean = float(np.mean(scores))
    random, gamer, record = (column.item() for column in references([game]))
    normalized = (normalize(mean, random, best).item() for best in (gamer, record))
    return GameResult(mean, len(scores), *normalized)


def _notes(agents: Sequence[AgentScores], common: tuple[str, ...]) -> list[str]:
    """What a reader of the numbers has to know: missing games, unequal numbers of seeds."""
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
    """Games that an agent from a file has."""
    own = [agent for agent in agents if not agent.published]
    return [game for game in all_games() if any(game in agent.scores for agent in own)]


def _listed(games: Sequence[str]) -> str:
    more = len(games) - LISTED
    shown = ", ".join(games[:LISTED])
    return f"{shown} and {more} more" if more > 0 else shown
