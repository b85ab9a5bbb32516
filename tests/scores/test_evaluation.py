"""Summaries of returns and the record of an evaluation."""

from __future__ import annotations

import json

import pytest

from wmtk.scores import EvaluationRecord, ScoreError, bootstrap_interval, summarize_returns

RECORD = {"task": "atari_pong", "seed": 3, "episodes": 2, "returns": [19, 21.0]}


def test_summary_of_an_atari_game():
    summary = summarize_returns([18, 20, 21, 21], "ALE/Pong-v5", resamples=500, seed=2)
    assert (summary.episodes, summary.mean) == (4, 20)
    assert summary.std == pytest.approx(1.5**0.5)  # squares of -2, 0, 1, 1: 6 over 4
    expected = bootstrap_interval([18, 20, 21, 21], resamples=500, seed=2)
    assert (summary.low, summary.high, summary.confidence) == (*expected, 0.95)
    assert (summary.game, summary.random, summary.gamer, summary.record) == (
        "pong",
        -20.7,
        14.6,
        21,
    )
    assert summary.gamer_normalized == pytest.approx(40.7 / 35.3)
    assert summary.record_normalized == pytest.approx(40.7 / 41.7)


def test_summary_of_another_task():
    summary = summarize_returns([1.5], "wmtk/Catch-v0")
    assert (summary.episodes, summary.mean, summary.std) == (1, 1.5, 0)
    assert (summary.low, summary.high) == (None, None)
    assert (summary.game, summary.random, summary.gamer_normalized) == (None, None, None)


def test_no_episodes_have_no_summary():
    with pytest.raises(AssertionError, match="no episode"):
        summarize_returns([])


def test_a_record_survives_json():
    made = EvaluationRecord(
        "atari_pong", 3, (19.0, 21.0), (1500, 1700), agent="big", run="runs/pong", eval_seed=8
    )
    record = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert EvaluationRecord.from_json(record) == made


def test_what_a_record_holds():
    record = EvaluationRecord("atari_pong", 3, (19.0, 21.0)).to_json()
    assert (record["format"], record["version"]) == ("wmtk.eval", 1)
    assert (record["task"], record["seed"], record["episodes"]) == ("atari_pong", 3, 2)
    assert (record["mean"], record["std"], record["low"], record["high"]) == (20, 1, 19, 21)
    assert (record["game"], record["gamer"]) == ("pong", 14.6)
    assert record["returns"] == (19, 21)


def test_the_least_and_the_most_that_a_record_may_hold():
    assert EvaluationRecord.from_json(RECORD) == EvaluationRecord("atari_pong", 3, (19.0, 21.0))
    assert EvaluationRecord.from_json({"task": "x", "seed": 0, "returns": [1]}).returns == (1.0,)
    later = RECORD | {"color": "green", "run": None, "agent": None, "eval_seed": None}
    assert EvaluationRecord.from_json(later) == EvaluationRecord.from_json(RECORD)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "the format 'other'"),
        ({"version": 2}, "version 2, this wmtk reads up to 1"),
        ({"version": "1"}, "version of a record must be a whole number"),
        ({"seed": 1.5}, "seed of a record must be a whole number, not 1.5"),
        ({"seed": True}, "must be a whole number, not True"),
        ({"task": 7}, "task of a record must be text, not 7"),
        ({"agent": 7}, "agent of a record must be text, not 7"),
        ({"returns": []}, "must be a list of numbers"),
        ({"returns": 20}, "must be a list of numbers, not 20"),
        ({"returns": [1, None]}, "must be a list of numbers"),
        ({"returns": [1, float("nan")]}, "must be a list of numbers"),
        ({"returns": ["1", "2"]}, "must be a list of numbers"),
        ({"episodes": 3}, "has 2 returns, but episodes is 3"),
        ({"mean": 19}, "has the mean 19; that of its returns is 20"),
        ({"mean": None}, "has the mean None"),
        ({"lengths": [1]}, "must be 2 whole numbers"),
        ({"lengths": 5}, "must be 2 whole numbers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_records(change, message):
    with pytest.raises(ScoreError) as caught:
        EvaluationRecord.from_json(RECORD | change)
    assert message in caught.value.message


@pytest.mark.parametrize("missing", ["task", "seed", "returns"])
def test_what_a_record_must_have(missing):
    record = {name: value for name, value in RECORD.items() if name != missing}
    with pytest.raises(ScoreError, match=f"lacks {missing}"):
        EvaluationRecord.from_json(record)


def test_a_record_is_an_object():
    with pytest.raises(ScoreError, match="must be an object, not 5"):
        EvaluationRecord.from_json(5)
