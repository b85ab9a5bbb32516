"""Agents side by side: common games, seeds, intervals, differences."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from wmtk.errors import UsageError
from wmtk.scores import (
    AgentScores,
    ScoreError,
    aggregate,
    aggregate_intervals,
    compare,
    differences,
    games,
    published_agents,
    references,
)
from wmtk.scores.agent_comparison import aggregate_rows, game_rows, to_csv

PONG_BOXING = references(["boxing", "pong"])


def test_all_games():
    found = compare(published_agents())
    assert found.games == games()
    assert [agent.name for agent in found.agents] == ["DreamerV2", "IQN", "Rainbow"]
    assert found.notes == ("Games: all 55 of the paper.",)
    assert found.missing == {"DreamerV2": (), "IQN": (), "Rainbow": ()}
    assert all(agent.protocols["gamer_mean"].low is None for agent in found.agents)


def test_only_games_of_all_agents_count():
    a = AgentScores("a", {"pong": (1.0,), "boxing": (2.0,), "hero": (9.0,)})
    b = AgentScores("b", {"pong": (3.0,), "boxing": (4.0,)})
    found = compare([a, b, *published_agents()])
    assert found.games == ("boxing", "pong")
    values = {agent.name: agent.protocols["gamer_median"].value for agent in found.agents}
    assert values["a"] == aggregate([2, 1], PONG_BOXING)["gamer_median"]
    assert values["IQN"] == aggregate([98, 20], PONG_BOXING)["gamer_median"]
    assert len(found.missing["a"]) == 52
    assert "hero" in found.missing["b"]
    assert found.notes[0].startswith("Games: 2 of the paper's 55, only boxing, pong. All agents")
    assert found.notes[1:] == ("b has no score in hero.",)


def test_few_missing_games_are_named():
    scores = {game: (1.0,) for game in games() if game not in ("alien", "zaxxon")}
    found = compare([AgentScores("a", scores), *published_agents()])
    assert found.notes[0].startswith("Games: 53 of the paper's 55, all but alien, zaxxon.")


def test_long_lists_are_cut():
    found = compare([AgentScores("a", dict.fromkeys(games()[:20], (1.0,)))])
    assert "centipede" not in found.notes[0]
    assert "boxing and 8 more." in found.notes[0]


def test_no_common_game():
    agents = [AgentScores("a", {"pong": (1.0,)}), AgentScores("b", {"hero": (1.0,)})]
    with pytest.raises(ScoreError, match="No game has a score of every agent") as caught:
        compare(agents)
    assert "a has 1, b has 1" in caught.value.hint


def test_seeds_and_intervals():
    scores = np.array([[40.0, 1], [60, 11], [90, 20]])  # boxing, pong
    agent = AgentScores("a", {"boxing": tuple(scores[:, 0]), "pong": tuple(scores[:, 1])})
    found = compare([agent], resamples=300, seed=5, confidence=0.8).agents[0]
    expected = aggregate(scores, PONG_BOXING)
    intervals = aggregate_intervals(scores, PONG_BOXING, resamples=300, seed=5, confidence=0.8)
    assert found.seeds == 3
    for name, estimate in found.protocols.items():
        assert (estimate.value, estimate.low, estimate.high) == (expected[name], *intervals[name])
    assert found.games["pong"].score == pytest.approx(32 / 3)
    assert found.games["pong"].gamer == pytest.approx((32 / 3 + 20.7) / 35.3)
    assert found.games["boxing"].record == pytest.approx((190 / 3 - 0.1) / 99.9)


def test_unequal_numbers_of_seeds():
    agent = AgentScores("a", {"boxing": (40.0, 60.0), "pong": (1.0, 11.0, 20.0)})
    found = compare([agent])
    assert found.agents[0].seeds == 2
    value = found.agents[0].protocols["gamer_mean"].value
    assert value == aggregate([[40, 1], [60, 11]], PONG_BOXING)["gamer_mean"]
    assert found.agents[0].games["pong"].seeds == 3
    assert found.notes[1] == (
        "a has up to 3 seeds, but only 2 in boxing: the first 2 of every game are aggregated."
    )


def test_intervals_over_games_need_no_seeds():
    found = compare(published_agents(), over_games=True, resamples=200)
    for agent in found.agents:
        estimate = agent.protocols["clipped_record_mean"]
        assert estimate.low < estimate.value < estimate.high


def test_notes_of_the_reader_come_first():
    found = compare(published_agents(), notes=["Beware."])
    assert found.notes[0] == "Beware."


def test_differences_as_the_paper_draws_them():
    """DreamerV2 gains most in James Bond and Up N Down, and loses most in Video Pinball."""
    found = compare(published_agents())
    iqn, rainbow = differences(found, found.agent("dreamerv2"))
    assert (iqn.agent, iqn.other, rainbow.other) == ("DreamerV2", "IQN", "Rainbow")
    for panel in (iqn, rainbow):
        assert panel.games[:2] == ("james_bond", "up_n_down")
        assert panel.games[-1] == "video_pinball"
        assert (np.diff(panel.values) <= 0).all()
    assert iqn.values[0] == pytest.approx((40445 - 3166) / 295.8)


def test_agents_by_name():
    found = compare(published_agents())
    assert found.agent().name == "DreamerV2"
    assert found.agent("RAINBOW").name == "Rainbow"
    with pytest.raises(UsageError, match="no agent 'dqn'") as caught:
        found.agent("dqn")
    assert caught.value.hint == "There are: DreamerV2, IQN, Rainbow."


def test_rows():
    agent = AgentScores("a, b", {"pong": (1.0, 3.0)})
    found = compare([agent, *published_agents()], resamples=200)
    aggregates = list(csv.DictReader(io.StringIO(to_csv(aggregate_rows(found)))))
    assert len(aggregates) == 16
    first = aggregates[0]
    assert (first["agent"], first["protocol"], first["seeds"]) == ("a, b", "gamer_median", "2")
    assert float(first["value"]) == found.agents[0].protocols["gamer_median"].value
    assert (first["low"] != "", aggregates[-1]["low"]) == (True, "")
    by_game = game_rows(found)
    assert [row["agent"] for row in by_game] == ["a, b", "DreamerV2", "IQN", "Rainbow"]
    assert (by_game[0]["score"], by_game[0]["gamer"], by_game[0]["seeds"]) == (2, 14.6, 2)
    assert by_game[0]["gamer_normalized"] == pytest.approx(22.7 / 35.3)
