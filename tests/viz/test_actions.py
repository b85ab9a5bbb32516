"""How actions are named and drawn."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.spaces import ArraySpec
from wmtk.viz.draw.actions import ACTION_NAMES, ATARI, ActionLook, action_names, draw_bars
from wmtk.viz.draw.canvas import INK, LINE, Canvas


def discrete(n: int, start: int = 0) -> ArraySpec:
    return ArraySpec("discrete", (), "int64", start, start + n - 1)


def test_atari_names_are_those_of_the_emulator():
    ale_py = pytest.importorskip("ale_py")
    assert list(ale_py.Action.__members__) == list(ATARI)
    assert action_names({"env_id": "ALE/Pong-v5"}, discrete(18)) == ATARI


def test_minimal_atari_actions_are_asked_from_the_game():
    pytest.importorskip("ale_py")
    names = action_names({"env_id": "ALE/Pong-v5"}, discrete(6))
    assert names == ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    assert action_names({"env_id": "ALE/Pong-v5"}, discrete(7)) == ()
    assert action_names({"env_id": "ALE/NoSuchGame-v5"}, discrete(6)) == ()


def test_only_known_environments_have_names():
    assert action_names({"env_id": "wmtk/Catch-v0"}, discrete(3)) == ACTION_NAMES["wmtk/Catch-v0"]
    assert action_names({"id": "wmtk/Catch-v0"}, discrete(4)) == ()
    assert action_names({"env_id": "os:system"}, discrete(3)) == ()
    assert action_names({}, ArraySpec("box", (2,), "float32", -1.0, 1.0)) == ()


@pytest.mark.parametrize(
    ("look", "action", "text"),
    [
        (ActionLook(discrete(3), ("left", "stay", "right")), 2, "right"),
        (ActionLook(discrete(3, start=5), ("left", "stay", "right")), 5, "left"),
        (ActionLook(discrete(3)), 2, "2"),
        (ActionLook(ArraySpec("multi_discrete", (2,), "int64", 0, (3, 9))), [1, 9], "1 9"),
        (ActionLook(ArraySpec("multi_binary", (3,), "int8", 0, 1)), [1, 0, 1], "1 0 1"),
        (ActionLook(ArraySpec("box", (2,), "float32", -1.0, 1.0)), [0.5, -1], "+0.50 -1.00"),
    ],
)
def test_text(look, action, text):
    assert look.text(np.array(action)) == text


def test_levels_follow_the_bounds():
    bounded = ActionLook(ArraySpec("box", (3,), "float32", (-2.0, -1.0, 0.0), (4.0, 1.0, 10.0)))
    assert bounded.levels(np.array([-2.0, 0.5, 2.5])).tolist() == [-1, 0.5, 0.25]
    unbounded = ActionLook(ArraySpec("box", (3,), "float32"))
    assert unbounded.levels(np.array([-7.0, 0.5, 0.0])).tolist() == [-1, 0.5, 0]


def test_bars_go_up_or_down_from_the_middle():
    canvas = Canvas(60, LINE)
    used = draw_bars(canvas, 0, 0, 60, np.array([1.0, -1.0, 0.0]))
    ink = (canvas.pixels() == INK).all(-1)
    middle = LINE // 2 - 2
    first, second, third = (ink[:, 9 * index] for index in range(3))
    assert used == 26
    assert np.flatnonzero(first).tolist() == list(range(middle + 1))
    assert np.flatnonzero(second).tolist() == list(range(middle, 2 * middle + 1))
    assert np.flatnonzero(third).tolist() == [middle]


def test_many_dimensions_stay_within_the_width():
    canvas = Canvas(200, LINE)
    assert draw_bars(canvas, 0, 0, 100, np.ones(300)) <= 100
    assert (canvas.pixels()[:, 100:] == 255).all()
