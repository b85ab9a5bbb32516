"""Episodes: alignment, content ids, and what is refused."""

import numpy as np
import pytest

from wmtk.datasets import Episode, Schema
from wmtk.errors import BoundsError, EpisodeError
from wmtk.spaces import ArraySpec

STATE = Schema(
    obs={"state": ArraySpec("box", (1,), "float32")},
    action=ArraySpec("discrete", (), "int64", 0, 3),
)


def state(value: float) -> dict[str, np.ndarray]:
    return {"state": np.array([value], np.float32)}


def test_transitions_are_aligned_on_arrival() -> None:
    episode = Episode.from_transitions(
        STATE,
        obs=[state(0), state(1), state(2)],
        actions=[3, 1],
        rewards=[0.5, -1.0],
        terminated=False,
        truncated=True,
    )
    assert episode.length == 2
    assert episode.action.tolist() == [0, 3, 1]  # row t: the action that led to observation t
    assert episode.reward.tolist() == [0, 0.5, -1.0]
    assert episode.arrays()["truncated"].tolist() == [False, False, True]
    assert not episode.arrays()["terminated"].any()
    assert episode.total_reward == -0.5
    episode.check(STATE)


def test_the_id_depends_on_the_content_and_on_nothing_else(make_episode) -> None:
    episode = make_episode(5, seed=1)
    assert make_episode(5, seed=1, provenance=make_episode().provenance).id == episode.id
    assert make_episode(5, seed=2).id != episode.id
    assert make_episode(5, seed=1, terminated=False).id != episode.id
    reward = episode.reward.copy()
    reward[3] = np.nextafter(reward[3], 9)
    assert make_episode(5, seed=1, reward=reward).id != episode.id


def test_counts_that_make_no_episode_are_refused() -> None:
    with pytest.raises(EpisodeError, match="2 observations, 2 actions"):
        Episode.from_transitions(
            STATE, [state(0), state(1)], [1, 2], [0.0, 0.0], terminated=True, truncated=False
        )


def test_a_wrong_observation_is_named_with_its_step() -> None:
    wrong = {"state": np.zeros(2, np.float32)}
    with pytest.raises(EpisodeError, match=r"obs/state at step 1 has shape \(2,\)"):
        Episode.from_transitions(
            STATE, [state(0), wrong], [1], [0.0], terminated=True, truncated=False
        )


def test_a_nan_reward_is_refused_with_its_step(schema, make_episode) -> None:
    reward = np.zeros(11)
    reward[7] = np.nan
    with pytest.raises(EpisodeError, match="reward is not a finite number at step 7"):
        make_episode(10, reward=reward).check(schema)


def test_an_action_out_of_range_is_refused_with_its_step(schema, make_episode) -> None:
    action = np.zeros(11, np.int64)
    action[4] = 9
    with pytest.raises(EpisodeError, match="action at step 4 is 9"):
        make_episode(10, action=action).check(schema)


def test_actions_in_the_departure_alignment_are_refused(schema, make_episode) -> None:
    with pytest.raises(EpisodeError, match="action at row 0"):
        make_episode(10, action=np.ones(11, np.int64)).check(schema)


def test_row_zero_may_lie_outside_a_discrete_range() -> None:
    schema = Schema(
        obs={"state": ArraySpec("box", (1,), "float32")},
        action=ArraySpec("discrete", (), "int64", 1, 3),
    )
    Episode.from_transitions(
        schema, [state(0), state(1)], [3], [0.0], terminated=True, truncated=False
    ).check(schema)


BOX = Schema(
    obs={"state": ArraySpec("box", (2,), "float32", (-1.0, None), (1.0, 8.0))},
    action=ArraySpec("box", (1,), "float32", 1.0, 2.0),
)


def boxed(state: float = 0.0, other: float = 0.0, action: float = 1.5) -> Episode:
    obs = np.zeros((4, 2), np.float32)
    obs[2] = state, other
    actions = np.array([[0], [1.5], [action], [1.5]], np.float32)  # row 0 lies outside
    return Episode({"state": obs}, actions, np.zeros(4), terminated=True, truncated=False)


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"state": 1.5}, "obs/state", r"obs/state at step 2, element 0, is 1\.5, .* -1\.0 to 1\.0"),
        ({"other": 8.5}, "obs/state", r"element 1, is 8\.5, beyond its declared bounds -inf to 8"),
        ({"state": -np.inf}, "obs/state", "is -inf"),
        ({"action": 2.5}, "action", r"action at step 2, element 0, is 2\.5, .* 1\.0 to 2\.0"),
        ({"action": 0.0}, "action", r"is 0\.0"),
    ],
)
def test_values_beyond_the_bounds_of_a_box_are_refused(changes, key, message) -> None:
    with pytest.raises(BoundsError, match=message) as caught:
        boxed(**changes).check(BOX)
    assert caught.value.key == key
    assert caught.value.hint
    boxed(**changes).check_form(BOX)  # which is all that is asked of what is stored already


def test_rounding_and_missing_bounds_are_no_breach() -> None:
    boxed(state=1.000001, other=-np.inf, action=0.999999).check(BOX)
    small = ArraySpec("box", (2,), "int16", (-3, None), 3)
    assert small.first_outside(np.array([[-3, -30000], [3, 3]], np.int16)) is None
    assert small.first_outside(np.array([[3, 3], [-3, 4]], np.int16)) == (1, 1)
    assert ArraySpec("box", (), "float64", None, 1e308).first_outside(np.array([1e308])) is None
