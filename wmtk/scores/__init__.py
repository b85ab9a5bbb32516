"""Atari scores: names of games, the paper's four aggregates, intervals, and published results."""

from wmtk.scores.agent_comparison import Comparison, compare, differences
from wmtk.scores.aggregates import PROTOCOLS, aggregate, aggregate_intervals, normalize
from wmtk.scores.episode_records import Evaluation, ReturnSummary, summarize_returns
from wmtk.scores.errors import ScoreError
from wmtk.scores.games import References, find_game, games, published, references
from wmtk.scores.reading import AgentScores, published_agents, read_scores
from wmtk.scores.reference_returns import Baselines, MeanReturn, ReturnComparison, compare_return
from wmtk.stats import Interval, bootstrap_interval

__all__ = [
    "PROTOCOLS",
    "AgentScores",
    "Baselines",
    "Comparison",
    "Evaluation",
    "Interval",
    "MeanReturn",
    "References",
    "ReturnComparison",
    "ReturnSummary",
    "ScoreError",
    "aggregate",
    "aggregate_intervals",
    "bootstrap_interval",
    "compare",
    "compare_return",
    "differences",
    "find_game",
    "games",
    "normalize",
    "published",
    "published_agents",
    "read_scores",
    "references",
    "summarize_returns",
]
