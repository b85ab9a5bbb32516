"""Spaces as plain data: what can be stored, and back to gymnasium."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from wmtk.datasets import Schema
from wmtk.errors import SpaceError
from wmtk.spaces import (
    ArraySpec,
    check_key,
    flatten_space,
    flatten_value,
    unflatten_space,
    unflatten_value,
)

LEAVES = [
    spaces.Box(0, 255, (64, 64, 3), np.uint8),
    spaces.Box(-np.inf, np.inf, (4,), np.float32),
    spaces.Box(np.array([-1.0, -2.0]), np.array([1.0, np.inf]), dtype=np.float64),
    spaces.Discrete(5),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 5, 3]),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    spaces.MultiBinary(4),
]


@pytest.mark.parametrize("space", LEAVES, ids=str)
def test_a_leaf_survives_json_and_comes_back_equal(space: gym.Space) -> None:
    spec = ArraySpec.from_gymnasium(space)
    schema = Schema(obs={"x": spec}, action=spec)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert spec.to_gymnasium() == space


def test_nested_spaces_flatten_to_keys_and_back() -> None:
    space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (8, 8, 3), np.uint8),
            "robot": spaces.Dict({"pos": spaces.Box(-1, 1, (3,)), "grip": spaces.Discrete(2)}),
            "pair": spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]),
        }
    )
    structure, leaves = flatten_space(space)
    assert set(leaves) == {"camera", "robot/pos", "robot/grip", "pair/_index_0", "pair/_index_1"}
    assert unflatten_space(structure, leaves) == space
    value = space.sample()
    flat = flatten_value(structure, value)
    assert set(flat) == set(leaves)
    back = unflatten_value(structure, flat)
    assert back["pair"][0] == value["pair"][0]
    assert back["robot"]["pos"] is value["robot"]["pos"]


def test_a_bare_space_gets_a_key_by_what_it_looks_like() -> None:
    assert set(flatten_space(spaces.Box(0, 255, (8, 8, 1), np.uint8))[1]) == {"image"}
    assert set(flatten_space(spaces.Box(-1, 1, (3,)))[1]) == {"state"}


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2))], ids=str)
def test_spaces_without_a_fixed_shape_are_refused_with_the_reason(space: gym.Space) -> None:
    with pytest.raises(SpaceError, match="no fixed shape"):
        flatten_space(spaces.Dict({"x": space}))


@pytest.mark.parametrize("key", ["../x", "a/../b", "/a", "a//b", ".a", "a b", "", "c", "x" * 65])
def test_unsafe_keys_are_refused(key: str) -> None:
    with pytest.raises(SpaceError):
        check_key(key, "The key")


@pytest.mark.parametrize(
    ("kind", "shape", "low", "high"),
    [
        ("discrete", (), None, 3),
        ("discrete", (2,), 0, 3),
        ("discrete", (), 3, 0),
        ("multi_discrete", (2,), (0, 0), (1, 1, 1)),
        ("multi_discrete", (2,), (0, 0.5), (1, 1)),
        ("box", (2,), (0, 0, 0), None),
    ],
)
def test_impossible_bounds_are_refused(kind, shape, low, high) -> None:
    with pytest.raises(SpaceError):
        ArraySpec(kind, shape, "int64", low, high)


def test_unbounded_elements_become_infinite_or_the_limit_of_the_type() -> None:
    assert ArraySpec("box", (2,), "float32", (None, -1.0)).bound("low").tolist() == [-np.inf, -1]
    assert ArraySpec("box", (), "uint8").bound("high") == 255
