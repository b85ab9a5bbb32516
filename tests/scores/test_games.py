"""Names of games and the published scores."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

import numpy as np
import pytest

from wmtk.scores import ScoreError, find_game, games, published, references
from wmtk.scores.games import PUBLISHED, require_game

ROOT = Path(__file__).parents[2]


def test_the_games_are_those_of_the_paper(paper):
    assert len(games()) == 55
    assert list(games()) == list(paper["random"])


@pytest.mark.parametrize("column", [*PUBLISHED, "record"])
def test_columns_are_those_of_the_paper(paper, column):
    assert published(column) == paper[column]


@pytest.mark.parametrize("column", ["random", "gamer"])
def test_decimals_round_to_what_the_paper_prints(paper, column):
    assert {game: round(score) for game, score in published(column).items()} == paper[column]


@pytest.mark.parametrize(
    ("name", "game"),
    [
        ("pong", "pong"),
        ("Pong", "pong"),
        ("atari_pong", "pong"),
        ("ALE/Pong-v5", "pong"),
        ("PongNoFrameskip-v4", "pong"),
        ("james_bond", "james_bond"),
        ("jamesbond", "james_bond"),
        ("atari_jamesbond", "james_bond"),
        ("ALE/Jamesbond-v5", "james_bond"),
        ("James Bond", "james_bond"),
        ("ALE/UpNDown-v5", "up_n_down"),
        ("Ms. Pac-Man", "ms_pacman"),
        ("River Raid", "riverraid"),
        ("Q*bert", "qbert"),
        ("Montezuma's Revenge", "montezuma_revenge"),
        ("wmtk/Catch-v0", None),
        ("other/Pong-v5", None),
        ("defender", None),
        ("dmc_walker_walk", None),
        ("", None),
    ],
)
def test_spellings(name, game):
    assert find_game(name) == game


def test_all_games_are_found_under_the_names_of_ale():
    atari = pytest.importorskip("wmtk.envs.atari")
    roms = [rom for rom in atari.games() if find_game(rom)]
    assert {find_game(rom) for rom in roms} == set(games())
    assert {find_game(atari.ale_id(rom)) for rom in roms} == set(games())


def test_unknown_games_get_the_nearest_name():
    with pytest.raises(ScoreError, match="'atari_pnog' is not one of the paper's 55") as caught:
        require_game("atari_pnog")
    assert caught.value.hint == "Did you mean 'pong'?"
    with pytest.raises(ScoreError) as caught:
        require_game("wmtk/Reach-v0")
    assert "ALE/Pong-v5" in caught.value.hint


def test_games_that_the_paper_leaves_out_are_no_error():
    assert require_game("ALE/Defender-v5") is None
    assert require_game("atari_surround") is None


def test_references_are_in_the_order_asked_for():
    random, gamer, record = references(["pong", "boxing"])
    np.testing.assert_array_equal(random, [-20.7, 0.1])
    np.testing.assert_array_equal(gamer, [14.6, 12.1])
    np.testing.assert_array_equal(record, [21, 100])


def test_published_gives_a_copy():
    published("iqn")["pong"] = 0
    assert published("iqn")["pong"] == 20


def test_the_data_goes_into_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["wmtk.scores"]
    data = [path.name for path in (ROOT / "wmtk" / "scores").glob("*.*") if path.suffix != ".py"]
    assert data == ["published.csv"]
    assert any(fnmatch.fnmatch(data[0], pattern) for pattern in patterns)
