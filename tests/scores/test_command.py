"""wmtk scores, as a user meets it."""

from __future__ import annotations

import csv
import json

import pytest
from PIL import Image as PillowImage

from wmtk.scores import EvaluationRecord, aggregate, references

LONG = "game,seed,score\n" + "".join(
    f"{game},{seed},{score}\n"
    for game, scores in {"Pong": (18, 20, 15), "atari_boxing": (80, 95, 60)}.items()
    for seed, score in enumerate(scores)
)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.csv").write_text(LONG)
    return tmp_path


def lines(result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("given", [False, True], ids=["built-in", "file"])
def test_table_1(run_wmtk, paper_file, given):
    shown = lines(run_wmtk("scores", *([paper_file] if given else [])))
    assert shown[:5] == [
        "Gamer Gamer Record Clipped",
        "agent seeds Median Mean Mean Record Mean",
        "DreamerV2 mean 2.15 11.33 0.44 0.28",
        "IQN mean 1.29 8.85 0.21 0.21",
        "Rainbow mean 1.47 9.12 0.17 0.17",
    ]
    assert "Games: all 55 of the paper." in shown
    assert not any("Intervals" in line for line in shown)


def test_runs_beside_published_results(run_wmtk, runs):
    shown = lines(run_wmtk("scores", "runs.csv"))
    mean = aggregate([[80, 18], [95, 20], [60, 15]], references(["boxing", "pong"]))
    row = [line for line in shown if line.startswith("yours 3 ")]
    assert row == ["yours 3 " + " ".join(f"{value:.2f}" for value in mean.values())]
    assert " to " in shown[3]
    assert any(line.startswith("Games: 2 of the paper's 55, only boxing, pong.") for line in shown)
    assert any(line.startswith("Intervals: 95%, bootstrap over the seeds") for line in shown)


def test_json_has_everything(run_wmtk, runs):
    result = run_wmtk("scores", "mine=runs.csv", "--json", "--resamples", 200, "--seed", 4)
    told = json.loads(result.stdout)
    assert told["games"] == ["boxing", "pong"]
    assert (told["resamples"], told["bootstrap_seed"], told["confidence"]) == (200, 4, 0.95)
    first = told["agents"][0]
    assert (first["name"], first["seeds"], first["published"]) == ("mine", 3, False)
    assert set(first["protocols"]["gamer_mean"]) == {"value", "low", "high"}
    assert first["games"]["pong"]["score"] == pytest.approx(53 / 3)
    assert told["agents"][1]["protocols"]["gamer_mean"]["low"] is None
    assert result.stderr == ""


def test_json_records(run_wmtk, runs):
    for seed in range(2):
        made = EvaluationRecord("ALE/Pong-v5", seed, (18.0 + seed, 20.0)).to_json()
        (runs / f"{seed}.json").write_text(json.dumps(made))
    told = json.loads(run_wmtk("scores", "0.json", "1.json", "--json").stdout)
    assert told["agents"][0]["games"]["pong"]["score"] == 19.25


def test_per_game(run_wmtk, runs):
    shown = lines(run_wmtk("scores", "runs.csv", "--per-game"))
    assert shown[0] == "game random gamer record yours DreamerV2 IQN Rainbow"
    assert shown[1] == "boxing 0.1 12.1 100 78.33 92 98 99"
    assert not any("Intervals" in line for line in shown)


@pytest.mark.parametrize(
    ("options", "rows", "column"),
    [([], 16, "protocol"), (["--per-game"], 8, "game")],
    ids=["aggregates", "games"],
)
def test_csv(run_wmtk, runs, options, rows, column):
    result = run_wmtk("scores", "runs.csv", "--csv", "out/table.csv", *options)
    assert result.exit_code == 0, result.stderr
    with (runs / "out" / "table.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == rows
    assert column in found[0]
    assert result.stderr == f"out/table.csv: {rows} rows.\n"


def test_the_games_csv_can_be_read_again(run_wmtk, runs):
    run_wmtk("scores", "runs.csv", "--csv", "games.csv", "--per-game")
    with (runs / "games.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["agent"] == "yours"]
    (runs / "again.csv").write_text(
        "game,yours\n" + "".join(f"{row['game']},{row['score']}\n" for row in rows)
    )
    told = json.loads(run_wmtk("scores", "again.csv", "--json").stdout)
    assert told["agents"][0]["games"]["pong"]["score"] == pytest.approx(53 / 3)


def test_chart(run_wmtk, runs):
    result = run_wmtk("scores", "runs.csv", "--chart", "d.png", "--agent", "iqn")
    assert result.exit_code == 0, result.stderr
    assert "d.png: 2 games" in result.stderr
    with PillowImage.open(runs / "d.png") as drawn:
        assert drawn.size[0] > 1000
    for ending, start in ((".svg", b"<?xml"), (".pdf", b"%PDF")):
        result = run_wmtk("scores", "runs.csv", "--chart", f"d{ending}")
        assert result.exit_code == 0, result.stderr
        assert (runs / f"d{ending}").read_bytes().startswith(start)


def test_names_are_not_markup(run_wmtk, runs):
    shown = lines(run_wmtk("scores", "[bold]x[/bold]=runs.csv"))
    assert any(line.startswith("[bold]x[/bold] 3 ") for line in shown)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["none.csv"], 2, "none.csv does not exist"),
        (["runs.csv", "runs.csv"], 1, "yours has two scores in pong with seed 0"),
        (["runs.csv", "--agent", "dqn"], 2, "There are: yours, DreamerV2, IQN, Rainbow."),
        (["runs.csv", "--chart", "d.gif"], 2, "Use one of: .png, .svg, .pdf."),
        (["runs.csv", "--csv", "d.txt"], 2, "Use one of: .csv."),
        (["runs.csv", "--confidence", "2"], 2, "--confidence"),
        (["bad.csv"], 1, "Did you mean 'pong'?"),
        (["runs.csv", "--csv", "runs.csv/x.csv"], 1, "could not be written"),
    ],
    ids=["missing", "twice", "agent", "chart", "csv", "confidence", "game", "place"],
)
def test_errors(run_wmtk, runs, args, code, message):
    (runs / "bad.csv").write_text("game,seed,score\npnog,0,1\n")
    result = run_wmtk("scores", *args)
    assert result.exit_code == code
    assert message in result.stderr


def test_help_teaches(run_wmtk):
    told = run_wmtk("scores", "--help").stdout
    for word in ("Examples:", "Clipped Record Mean", "game,seed,score", "wmtk eval --json"):
        assert word in told
    assert "Usage: wmtk scores [OPTIONS] [[NAME=]FILE]..." in told
