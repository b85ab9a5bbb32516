"""A comparison as rows of plain values: for CSV files and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from wmtk.scores.agent_comparison import Comparison
from wmtk.scores.games import references


def aggregate_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each agent and protocol."""
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
    """A row for each agent and game."""
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
    """Rows with the same keys as text with commas; what is None stays empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
