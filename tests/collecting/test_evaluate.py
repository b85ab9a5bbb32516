"""Evaluation: equal shares of whole episodes, and the predictions of the critic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from wmtk.collecting import (
    CallablePolicy,
    CollectReport,
    EvalReport,
    RandomPolicy,
    collect_episodes,
    dataset_for,
    evaluate_policy,
    schema_of,
    task_of,
)
from wmtk.collecting.driver import EpisodeDriver
from wmtk.collecting.env_setup import make_plans
from wmtk.collecting.recording_policy import discounted_returns
from wmtk.datasets import Dataset, Episode
from wmtk.envs import resolve
from wmtk.envs.catch import RANDOM_RETURN
from wmtk.envs.known_returns import known_returns
from wmtk.errors import EnvironmentFailedError, UsageError
from wmtk.scores import EvaluationRecord

CATCH = resolve("wmtk/Catch-v0")
SCHEMA = schema_of(CATCH)


def play_randomly(episodes: int, **options) -> EvalReport:
    policy = RandomPolicy(SCHEMA.action, [options.pop("policy_seed", 0)])
    return evaluate_policy(CATCH, policy, episodes=episodes, seed=options.pop("seed", 0), **options)


# --- episodes ---


class IndexSink:
    """A sink that records the environment of each episode."""

    def __init__(self) -> None:
        self.env_indices: list[int] = []
        self.closed = False

    def add(self, env_index: int, episode: Episode) -> None:
        assert episode.length > 0
        self.env_indices.append(env_index)

    def flush_if_due(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def test_every_environment_plays_its_share_and_no_more() -> None:
    """In CartPole, where episodes differ in length, the quick ones must not get more turns."""
    task = resolve("CartPole-v1")
    schema = schema_of(task)
    policy = RandomPolicy(schema.action, [0])
    plans = make_plans(task, schema, policy, seed=(0,), episodes=8, envs=3)
    sink = IndexSink()
    assert not EpisodeDriver(policy, sink).run(plans, workers=0, timeout=60)
    assert Counter(sink.env_indices) == {0: 3, 1: 3, 2: 2}
    assert sink.closed


def test_the_same_seed_gives_the_same_returns() -> None:
    first, again, other = (play_randomly(7, envs=3, seed=seed) for seed in (0, 0, 1))
    assert len(first.results) == 7
    assert first.results == again.results
    assert other.returns != first.returns
    assert set(first.lengths) == {79}


@pytest.mark.slow
def test_workers_make_no_difference() -> None:
    assert play_randomly(6, envs=3, workers=2).results == play_randomly(6, envs=3).results


def test_random_play_has_its_known_return() -> None:
    report = play_randomly(200, envs=10)
    assert np.mean(report.returns) == pytest.approx(RANDOM_RETURN, abs=0.6)  # 4 standard errors
    assert report.frames == 200 * 79


def test_training_data_is_not_played_again(tmp_path) -> None:
    with dataset_for(CATCH, tmp_path / "d") as dataset:
        report = collect_episodes(
            CATCH, dataset, RandomPolicy(SCHEMA.action, [0]), seed=0, episodes=1
        )
    assert isinstance(report, CollectReport)
    played = play_randomly(1, record=True).recording
    assert played is not None
    assert played.episode.seed != Dataset.open(tmp_path / "d")[0].seed


def test_a_record_for_scores() -> None:
    report = play_randomly(3, seed=5)
    made = report.evaluation(seed=2, agent="random", run="runs/a")
    assert EvaluationRecord.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert (made.seed, made.eval_seed, made.returns) == (2, 5, report.returns)


def test_interruption_leaves_what_is_whole() -> None:
    calls = []

    def stop_in_the_second_episode(obs):
        calls.append(obs)
        if len(calls) > 100:
            raise KeyboardInterrupt
        return 1

    policy = CallablePolicy(stop_in_the_second_episode, SCHEMA.action)
    report = evaluate_policy(CATCH, policy, episodes=5, seed=0)
    assert report.interrupted
    assert report.lengths == (79,)


def test_spoilt_episodes_are_replaced_until_it_is_hopeless(tmp_path, module) -> None:
    said: list[str] = []
    settings = {"fault": "raise", "when": "1", "log": str(tmp_path / "log")}
    task = resolve(f"{module}:Misbehaving-v0", kwargs=settings)
    policy = RandomPolicy(schema_of(task).action, [0])
    report = evaluate_policy(task, policy, episodes=3, seed=0, workers=0, on_message=said.append)
    assert (len(report.results), report.dropped, len(said)) == (3, 1, 1)
    hopeless = resolve(f"{module}:Misbehaving-v0", kwargs={"fault": "raise", "when": "always"})
    with pytest.raises(EnvironmentFailedError) as raised:
        evaluate_policy(hopeless, policy, episodes=1, seed=0, workers=0)
    assert "dataset" not in str(raised.value)  # there is none


def test_nothing_to_play_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one episode"):
        play_randomly(0)


# --- expectations ---


class Counting:
    """A policy that counts its observations, and its own introspector."""

    name, checkpoint, needs_obs, discount = "counting", "", True, 0.5

    def __init__(self) -> None:
        self.count: dict[int, int] = {}

    def begin(self, env_index: int) -> None:
        self.count[env_index] = 0

    def act(self, env_indices: Sequence[int], obs: Sequence[dict]) -> list:
        for index, one in zip(env_indices, obs, strict=True):
            assert one["image"].shape == (64, 64, 1)
            self.count[index] += 1
        return [np.int64(index % 3) for index in env_indices]

    def values(self, env_indices: Sequence[int]) -> np.ndarray:
        return np.array([100 * index + self.count[index] for index in env_indices], np.float32)

    def rewards(self, env_indices: Sequence[int]) -> np.ndarray:
        return -self.values(env_indices)

    def transform_rewards(self, rewards: np.ndarray) -> np.ndarray:
        return 10 * rewards

    def preprocess(self, obs):
        return {key: 255 - rows for key, rows in obs.items()}

    def reconstructions(self, env_indices: Sequence[int]) -> dict[str, np.ndarray]:
        shades = np.array([self.count[index] for index in env_indices], np.uint8)
        return {
            "image": np.broadcast_to(shades[:, None, None, None], (len(env_indices), 64, 64, 1))
        }


def test_what_is_expected_is_asked_at_the_start_of_each_episode() -> None:
    policy = Counting()
    report = evaluate_policy(CATCH, policy, episodes=5, seed=0, envs=3, introspector=policy)
    assert sorted(report.predicted_returns) == [1, 1, 101, 101, 201]
    assert report.discount == 0.5
    unseen = evaluate_policy(CATCH, Counting(), episodes=5, seed=0, envs=3)
    assert unseen.returns == report.returns
    assert (unseen.predicted_returns, unseen.discounted_returns, unseen.discount) == ((), (), None)


def test_a_recording_has_all_states_of_the_first_episode() -> None:
    policy = Counting()
    report = evaluate_policy(
        CATCH, policy, episodes=4, seed=0, envs=2, introspector=policy, record=True
    )
    recording = report.recording
    assert recording is not None
    rows = np.arange(1, 81)  # what has been seen, the last observation too
    np.testing.assert_array_equal(recording.values, rows)
    np.testing.assert_array_equal(recording.rewards, -rows)
    np.testing.assert_array_equal(recording.reconstructions["image"][:, 0, 0, 0], rows)
    np.testing.assert_array_equal(recording.images["image"], 255 - recording.episode.obs["image"])
    assert recording.episode.total_reward in report.returns
    assert set(recording.episode.action[1:].tolist()) == {0}  # of environment 0
    np.testing.assert_array_equal(recording.true_rewards, 10 * recording.episode.reward)
    returns = discounted_returns(recording.episode, 0.5, recording.values, recording.true_rewards)
    assert returns[0] in report.discounted_returns


def make_episode(reward: list[float], *, truncated: bool) -> Episode:
    rows = len(reward)
    return Episode(
        obs={"state": np.zeros((rows, 1))},
        action=np.zeros(rows, np.int64),
        reward=np.array(reward),
        terminated=not truncated,
        truncated=truncated,
    )


def test_discounted_returns_by_hand() -> None:
    values = np.array([9.0, 9.0, 8.0])
    ended = make_episode([0, 1, 2], truncated=False)
    assert discounted_returns(ended, 0.5, values).tolist() == [0 + 0.5 + 0.5, 1 + 1, 2]
    # The critic's 8 for the last state includes the 2 of arriving there, and what is cut off.
    stopped = make_episode([0, 1, 2], truncated=True)
    assert discounted_returns(stopped, 0.5, values).tolist() == [0 + 0.5 + 2, 1 + 4, 8]
    assert stopped.reward.tolist() == [0, 1, 2]
    tenfold = 10 * ended.reward
    assert discounted_returns(ended, 0.5, values, tenfold).tolist() == [5 + 5, 10 + 10, 20]


# --- tasks ---


def test_the_task_of_stored_settings() -> None:
    stored = resolve("wmtk/Reach-v0", time_limit=30).settings
    assert task_of(stored) == resolve("wmtk/Reach-v0", time_limit=30)
    assert task_of(stored, changes={"repeat": "2"}).kwargs["time_limit"] == 30
    assert task_of(stored, "wmtk/Catch-v0") == CATCH
    assert task_of({}, "wmtk/Catch-v0", {"repeat": 2}).action_repeat == 2
    with pytest.raises(UsageError, match="task='atari_pong'"):
        task_of({})


def test_another_game_is_played_by_the_same_rules() -> None:
    pytest.importorskip("ale_py")
    stored = resolve("atari_pong", sticky=0.0, rgb=True).settings
    other = task_of(stored, "atari_boxing")
    assert other == resolve("atari_boxing", sticky=0.0, rgb=True)
    assert task_of(stored, "wmtk/Catch-v0") == CATCH


def test_known_returns() -> None:
    assert known_returns(CATCH) == {"random": -1.742, "optimal": 4.881}
    assert known_returns(resolve("wmtk/Reach-v0")) == {"random": 18.1, "controller": 88.0}
    assert known_returns(resolve("wmtk/Reach-v0", time_limit=30)) == {}
    assert known_returns(resolve("CartPole-v1")) == {}


def test_known_returns_of_atari() -> None:
    pytest.importorskip("ale_py")
    assert known_returns(resolve("atari_pong")) == {"random": -20.7, "gamer": 14.6, "record": 21.0}
    assert known_returns(resolve("atari_pong", time_limit=2000)) == {}
    assert known_returns(resolve("atari_surround")) == {}
