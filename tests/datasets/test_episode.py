"""Episodes: alignment, content ids, and what is refused."""

import numpy as np
import pytest

from wmtk.datasets import Episode, Schema
from wmtk.errors import EpisodeError
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
