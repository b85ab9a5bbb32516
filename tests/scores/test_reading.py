"""Scores from files: records, long and wide tables, and what is wrong with them."""

from __future__ import annotations

import json
import os
import tracemalloc

import pytest

from wmtk.errors import UsageError, WmtkError
from wmtk.scores import EvaluationRecord, ScoreError, published_agents, read_scores
from wmtk.scores.score_files import AgentScores


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str | bytes) -> str:
        data = text.encode() if isinstance(text, str) else text
        (tmp_path / name).write_bytes(data)
        return name

    return write_file


def record(task: str, seed: int, returns: list[float], **more: object) -> str:
    return json.dumps({"task": task, "seed": seed, "returns": returns, **more})


def scores_of(*files: str) -> dict[str, dict[str, tuple[float, ...]]]:
    return {agent.name: dict(agent.scores) for agent in read_scores(files).agents}


# --- records ----------------------------------------------------------------------------------


def test_records_of_runs(write):
    first = write("a.json", record("atari_pong", 0, [19, 21]))
    second = write("b.json", record("ALE/Pong-v5", 1, [18.0]))
    assert scores_of(second, first) == {"yours": {"pong": (20, 18)}}


@pytest.mark.parametrize("between", ["\n", "", "\n\n  "], ids=["lines", "joined", "blanks"])
def test_records_one_after_the_other(write, between):
    texts = [record("pong", 0, [1.0]), record("boxing", 0, [2.0])]
    name = write("all.jsonl", between.join(texts) + "\n")
    assert scores_of(name) == {"yours": {"boxing": (2,), "pong": (1,)}}


def test_a_list_of_records(write):
    name = write("all.json", f"[{record('pong', 0, [1.0])}, {record('pong', 1, [3.0])}]")
    assert scores_of(name) == {"yours": {"pong": (1, 3)}}


def test_what_the_command_prints_is_read(write):
    made = EvaluationRecord("atari_pong", 2, (19.0, 20.0), agent="big").to_json()
    assert scores_of(write("e.json", json.dumps(made, indent=2))) == {"big": {"pong": (19.5,)}}


def test_names_of_agents(write):
    plain = write("plain.json", record("pong", 0, [1.0]))
    named = write("named.json", record("pong", 0, [2.0], agent="small"))
    found = scores_of(plain, named, f"big={named}", f"DREAMERV2={plain}")
    assert found == {
        "yours": {"pong": (1,)},
        "small": {"pong": (2,)},
        "big": {"pong": (2,)},
        "DreamerV2": {"pong": (1,)},
    }


def test_a_file_may_have_an_equals_sign_in_its_name(write):
    assert scores_of(write("lr=3.json", record("pong", 0, [1.0]))) == {"yours": {"pong": (1,)}}


# --- tables -----------------------------------------------------------------------------------


def test_a_long_table(write):
    name = write("s.csv", "game,seed,score\npong,10,3\nPong,9,2\natari_boxing,a,1e1\n\n")
    assert scores_of(name) == {"yours": {"boxing": (10,), "pong": (2, 3)}}
    assert scores_of(f"mine={name}") == {"mine": {"boxing": (10,), "pong": (2, 3)}}


def test_a_long_table_with_agents(write):
    text = "\ufeffAgent, Task, Seed, Score\r\na, pong, 0, 1\r\nb, pong, 0, 2\r\na, pong, 1, 3\r\n"
    assert scores_of(write("s.csv", text)) == {"a": {"pong": (1, 3)}, "b": {"pong": (2,)}}


def test_a_wide_table(write):
    name = write("w.csv", "task,random,a,b\npong,-21,1,2\nboxing,0,,4\n")
    assert scores_of(name) == {"a": {"pong": (1,)}, "b": {"pong": (2,), "boxing": (4,)}}


def test_the_papers_table_is_recognized(paper_file):
    read = read_scores([paper_file])
    assert all(agent.published for agent in read.agents)
    by_name = {agent.name: agent for agent in read.agents}
    for agent in published_agents():
        assert by_name[agent.name] == agent
    assert read.notes == []


def test_other_scores_under_a_published_name(write):
    read = read_scores([write("w.csv", "game,iqn\npong,3\n")])
    assert read.agents == [AgentScores("IQN", {"pong": (3.0,)})]
    assert read.notes == ["IQN is read from the files; it differs from the paper."]


def test_games_that_the_paper_leaves_out(write):
    name = write("s.csv", "game,seed,score\npong,0,1\nDefender,0,5\nDefender,1,5\n")
    read = read_scores([name])
    assert [dict(agent.scores) for agent in read.agents] == [{"pong": (1,)}]
    assert read.notes == ["s.csv: Defender is skipped: the paper does not include it."]


# --- what is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The first line is ''"),
        ("a,b\n1,2\n", "The first line is 'a,b'"),
        ("game,score\npong,1\n", "The first line is 'game,score'"),
        ("game;seed;score\npong;0;1\n", "The first line is 'game;seed;score'"),
        ("game\npong\n", "The first line is 'game'"),
        ("game,seed,Score,score\npong,0,1,1\n", "Two columns have the same name"),
        ("game,seed,score\npong,0\n", "s.csv, line 2: 2 cells under 3 columns"),
        ("game,seed,score\npong,0,1\npong,1,many\n", "s.csv, line 3: 'many' is not a score"),
        ("game,seed,score\npong,0,nan\n", "s.csv, line 2: 'nan' is not a score"),
        ("game,seed,score\npong,0,\n", "s.csv, line 2: '' is not a score"),
        ("game,seed,score\npong,,1\n", "s.csv, line 2: no seed"),
        ("game,seed,score\npnog,0,1\n", "s.csv: 'pnog' is not one of the paper's 55 Atari games"),
        ("game,seed,score\npong,0,1\nPong,0,1\n", "yours has two scores in pong with seed 0: s"),
        ("game,a\npong,1\natari_pong,1\n", "a has two scores in pong: s.csv, line 2 and s.csv, l"),
        ("game,gamer,a\npong,9,1\n", "gamer is 9 in pong, but the built-in reference is 14.6"),
    ],
    ids=[
        "empty",
        "strange",
        "no-seeds",
        "semicolons",
        "one-column",
        "twice-a-column",
        "short",
        "text",
        "nan",
        "blank",
        "no-seed",
        "unknown-game",
        "twice-long",
        "twice-wide",
        "other-gamer",
    ],
)
def test_wrong_tables(write, text, message):
    with pytest.raises(ScoreError) as caught:
        read_scores([write("s.csv", text)])
    assert message in caught.value.message
    assert "s.csv" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "r.json: The file is empty"),
        ('{"task": "pong", "seed', "r.json: Invalid JSON"),
        ('{"task": "pong"}', "r.json: A record lacks seed, returns"),
        ("3", "r.json: A record must be an object, not 3"),
        (record("wmtk/Catch-v0", 0, [1.0]), "r.json: 'wmtk/Catch-v0' is not one of the paper's"),
        (record("pong", 0, [1.0]) * 2, "r.json, record 1 and r.json, record 2"),
    ],
    ids=["empty", "cut", "lacking", "number", "other-task", "twice"],
)
def test_wrong_records(write, text, message):
    with pytest.raises(ScoreError) as caught:
        read_scores([write("r.json", text)])
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("none.csv", "none.csv does not exist"),
        ("mine=none.csv", "none.csv does not exist"),
        ("folder", "folder is a folder"),
        ("s.txt", "s.txt has an unsupported file extension"),
        ("=w.csv", "has no name before the '='"),
        ("mine=w.csv", "w.csv has one column per agent"),
    ],
)
def test_wrong_arguments(write, tmp_path, file, message):
    (tmp_path / "folder").mkdir()
    write("s.txt", "game,seed,score\n")
    write("w.csv", "game,a\npong,1\n")
    with pytest.raises(UsageError) as caught:
        read_scores([file])
    assert message in caught.value.message


def test_a_cell_without_end(write):
    with pytest.raises(ScoreError, match="is not a CSV table: field larger than"):
        read_scores([write("s.csv", 'game,seed,score\npong,0,"1' + "1" * 200_000)])


def test_a_file_that_is_no_text(write):
    with pytest.raises(WmtkError, match="not text in UTF-8"):
        read_scores([write("s.csv", b"game,seed,score\n\xff\xfe\x00,0,1\n")])


@pytest.mark.parametrize("name", ["s.json", "s.csv"])
def test_a_file_of_gigabytes_is_not_read(write, name):
    file = write(name, "")
    os.truncate(file, 2**40)
    tracemalloc.start()
    with pytest.raises(ScoreError, match=f"{name} has 1099511627776 bytes"):
        read_scores([file])
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * 10_000,
        record("atari_pong", 0, [1e308, 1e308]),
        record("atari_pong", 0, [10**400]),
        record("atari_pong", 0, [1.0], mean=10**400),
    ],
    ids=lambda text: text[:8],
)
def test_json_of_absurd_depth_or_size(write, text):
    with pytest.raises(ScoreError, match=r"s\.json"):
        read_scores([write("s.json", text)])


def test_cells_of_absurd_size(write):
    with pytest.raises(ScoreError, match="is not a score"):
        read_scores([write("s.csv", "game,seed,score\npong,0,1e308\n")])
    seed = "1" * 5000
    assert scores_of(write("s.csv", f"game,seed,score\npong,{seed},2\npong,3,1\n")) == {
        "yours": {"pong": (1.0, 2.0)}
    }
