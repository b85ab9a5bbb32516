"""Keys become actions, whatever the environment's actions are."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.spaces import ArraySpec
from wmtk.viz.draw.actions import ATARI
from wmtk.viz.live.controls import Controls


def discrete(n: int) -> ArraySpec:
    return ArraySpec("discrete", (), "int64", 0, n - 1)


def test_atari_takes_combinations_of_arrows_and_fire() -> None:
    controls = Controls(discrete(18), {"env_id": "ALE/Pong-v5"})
    for held, name in [
        ([], "NOOP"),
        (["up"], "UP"),
        (["up", "left", "fire"], "UPLEFTFIRE"),
        (["down", "fire"], "DOWNFIRE"),
        (["right", "down"], "DOWNRIGHT"),
    ]:
        assert ATARI[int(controls.action(held, []))] == name
    keys = controls.describe()["keys"]
    assert keys["ArrowUp"] == "up"
    assert keys["Space"] == "fire"


def test_opposite_keys_are_no_action_of_their_own() -> None:
    controls = Controls(discrete(3), {"env_id": "wmtk/Catch-v0"})
    assert int(controls.action(["left", "right"], [])) in {0, 2}
    assert int(controls.action([], [])) == 1  # stay


def test_choices_without_names_have_digits_and_go_on_when_nothing_is_held() -> None:
    controls = Controls(discrete(4), {})
    keys = controls.describe()["keys"]
    assert keys["Digit1"] == "choice0"
    assert int(controls.action([keys["Digit3"]], [])) == 2
    assert int(controls.action([], [])) == 2


def test_cartpole_has_arrows() -> None:
    controls = Controls(discrete(2), {"env_id": "CartPole-v1"})
    assert int(controls.action(["right"], [])) == 1


@pytest.mark.parametrize(
    ("spec", "values", "expected"),
    [
        (ArraySpec("box", (2,), "float32", -2.0, 2.0), [1, -0.5], [2, -1]),
        (ArraySpec("box", (2,), "float32"), [0.5], [0.5, 0]),
        (ArraySpec("box", (1,), "float64", 0.0, 10.0), [0], [5]),
        (ArraySpec("multi_binary", (2,), "int8", 0, 1), [1, -1], [1, 0]),
        (ArraySpec("multi_discrete", (2,), "int64", (0, 0), (4, 2)), [1, -1], [4, 0]),
    ],
)
def test_levers_reach_from_bound_to_bound(spec, values, expected) -> None:
    action = Controls(spec, {}).action([], values)
    np.testing.assert_allclose(action, expected)
    assert action.dtype == spec.dtype
    assert action.shape == spec.shape
