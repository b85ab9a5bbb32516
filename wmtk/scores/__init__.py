"""Atari scores: game names, the four aggregates of the paper, intervals and published scores."""

from wmtk.errors import ScoreError
from wmtk.scores.agent_comparison import (
    AggregateScore,
    Comparison,
    aggregate_rows,
    compare,
    differences,
    game_rows,
    to_csv,
)
from wmtk.scores.aggregates import PROTOCOLS, aggregate, aggregate_intervals, normalize
from wmtk.scores.episode_records import EvaluationRecord, ReturnSummary, summarize_returns
from wmtk.scores.games import References, find_game, games, published, references
from wmtk.scores.reference_returns import Baselines, MeanReturn, ReturnComparison, compare_return
from wmtk.scores.score_files import AgentScores, published_agents, read_scores
from wmtk.stats import Interval, bootstrap_interval

__all__ = [
    "PROTOCOLS",
    "AgentScores",
    "AggregateScore",
    "Baselines",
    "Comparison",
    "EvaluationRecord",
    "Interval",
    "MeanReturn",
    "References",
    "ReturnComparison",
    "ReturnSummary",
    "ScoreError",
    "aggregate",
    "aggregate_intervals",
    "aggregate_rows",
    "bootstrap_interval",
    "compare",
    "compare_return",
    "differences",
    "find_game",
    "game_rows",
    "games",
    "normalize",
    "published",
    "published_agents",
    "read_scores",
    "references",
    "summarize_returns",
    "to_csv",
]
