"""Names and published scores of the 55 Atari games of the DreamerV2 paper.

`published.csv` is the score table of the paper. The paper prints whole numbers, with which its
gamer means are 1% too low: in Double Dunk, the gamer is 2.2 points above random play, not 3. The
columns random and gamer therefore have one decimal, as in their original publications.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wmtk.errors import ScoreError

# In the order of the paper's Table 1.
PUBLISHED = {"dreamerv2": "DreamerV2", "iqn": "IQN", "rainbow": "Rainbow"}
BASELINES = ("random", "gamer", "record")
# Games of the 57-game benchmark that the paper does not include.
EXCLUDED = ("defender", "surround")

_PREFIX = re.compile(r"^(ALE/|atari[_/])", re.IGNORECASE)
_VERSION = re.compile(r"(NoFrameskip|Deterministic)?-v\d+$")
_ALIASES = {"montezumasrevenge": "montezuma_revenge"}


class References(NamedTuple):
    """Reference scores, arrays (G,)."""

    random: NDArray[np.float64]
    gamer: NDArray[np.float64]
    record: NDArray[np.float64]


@cache
def _published() -> dict[str, dict[str, float]]:
    """The columns of published.csv: {column: {game: score}}."""
    text = resources.files("wmtk.scores").joinpath("published.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    columns = (*BASELINES, *PUBLISHED)
    return {name: {row["game"]: float(row[name]) for row in rows} for name in columns}


def games() -> tuple[str, ...]:
    """The 55 games of the paper in snake case, sorted."""
    return tuple(_published()["random"])


def published(column: str) -> dict[str, float]:
    """One column of the score table, by game: random, gamer, record or a key of PUBLISHED."""
    return dict(_published()[column])


def references(names: Sequence[str]) -> References:
    """The reference scores of games."""
    columns = ([_published()[column][game] for game in names] for column in BASELINES)
    return References(*(np.array(column, np.float64) for column in columns))


def find_game(name: str) -> str | None:
    """The game named by `atari_pong`, `ALE/Pong-v5` or `Pong`; None for other names."""
    return _spellings().get(_plain(name))


def require_game(name: str) -> str | None:
    """Like `find_game`, but None only for games that the paper excludes, else ScoreError."""
    game = find_game(name)
    if game is None and _plain(name) not in EXCLUDED:
        close = difflib.get_close_matches(_plain(name), _spellings(), n=3, cutoff=0.6)
        names = " or ".join(f"'{_spellings()[match]}'" for match in close)
        raise ScoreError(
            f"'{name}' is not one of the paper's 55 Atari games.",
            f"Did you mean {names}?" if names else "Names are like pong, atari_pong, ALE/Pong-v5.",
        )
    return game


@cache
def _spellings() -> dict[str, str]:
    return {_plain(game): game for game in games()} | _ALIASES


def _plain(name: str) -> str:
    """Strip prefix, version, case and separators (ale-py: `jamesbond`, papers: James Bond)."""
    bare = _VERSION.sub("", _PREFIX.sub("", name.strip()))
    return "".join(letter for letter in bare.lower() if letter.isalnum())
