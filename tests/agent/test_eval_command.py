"""`wmtk eval`: from a run to its score, its film and a record that `wmtk scores` reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import wmtk
from wmtk.agent.actor_policy import ActorIntrospector
from wmtk.collecting import evaluate_policy
from wmtk.datasets import Dataset, Source
from wmtk.envs import resolve
from wmtk.errors import EnvironmentFailedError
from wmtk.scores import EvaluationRecord
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

SHORT = ["--env-set", "time_limit=8"]  # steps an episode, instead of 79
FUNCTIONS = """
calls = 0

def right(obs):
    return 2

def stop(obs):
    global calls
    calls += 1
    if calls > {patience}:
        raise KeyboardInterrupt
    return 1
"""


@pytest.fixture(scope="module")
def runs(catch, tmp_path_factory) -> Path:
    """A model run and a policy run, trained with seed 3."""
    folder = tmp_path_factory.mktemp("runs")
    small = {"model.cnn_depth": 2, "model.units": 8, "model.rssm.deter": 8, "model.rssm.hidden": 8}
    small |= {"model.rssm.stoch": 2, "model.rssm.classes": 4, "data.batch_size": 2}
    small |= {"data.length": 6, "behavior.layers": 1, "behavior.units": 8}
    config = training_config("tiny", overrides={**small, "behavior.horizon": 2})
    train_model([Source(Dataset.open(catch))], folder / "model", config, updates=1)
    train_policy(folder / "model", folder / "policy", updates=2, seed=3, episodes=0)
    return folder


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """A module of policies in the current folder, whose `stop` interrupts after some calls."""

    def make(patience: int = 0) -> str:
        name = f"functions_{patience}"  # a module is imported once, wherever it is
        (tmp_path / f"{name}.py").write_text(FUNCTIONS.format(patience=patience))
        monkeypatch.chdir(tmp_path)
        return name

    return make


# --- the actor ---


def test_the_introspector_returns_the_estimates_of_the_actor(runs) -> None:
    agent = wmtk.load(runs / "policy")
    policy = agent.make_policy(sample=False)
    introspector = ActorIntrospector(policy)
    frames = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 1), np.uint8)
    policy.act([0, 1], [{"image": frame} for frame in frames])
    states = policy.states([0, 1])
    np.testing.assert_array_equal(introspector.values([0, 1]), agent.value(states))
    assert introspector.values([1]) == pytest.approx(agent.value(states)[1:], rel=1e-5)
    assert introspector.rewards([0, 1]).shape == (2,)
    assert introspector.reconstructions([0, 1])["image"].shape == (2, 64, 64, 1)
    assert introspector.discount == agent.config.model.discount


def test_looking_does_not_change_what_is_played(runs) -> None:
    """But for the draws of the states at the ends of episodes, which nobody acts on."""
    agent, task = wmtk.load(runs / "policy"), resolve("wmtk/Catch-v0")
    blind, seen = (agent.make_policy(sample=True, seed=[7]) for _ in range(2))
    one = evaluate_policy(task, blind, episodes=2, seed=0, envs=2)
    two = evaluate_policy(
        task, seen, episodes=2, seed=0, envs=2, introspector=ActorIntrospector(seen), record=True
    )
    assert one.returns == two.returns
    assert two.recording is not None
    assert two.recording.values is not None
    assert two.recording.reconstructions["image"].shape == two.recording.episode.obs["image"].shape
    assert two.predicted_returns[0] == two.recording.values[0]


# --- the command ---


def test_a_run_is_scored_in_its_own_task(run_wmtk, runs) -> None:
    options = ["eval", runs / "policy", "--episodes", 3, "--envs", 2, "--seed", 1]
    shown = run_wmtk(*options)
    assert shown.exit_code == 0, shown.stderr
    words = " ".join(shown.stdout.split())  # lines are as long as the terminal is wide
    for word in ("update 2", "most likely actions", "wmtk/Catch-v0", "seed 1", "3 episodes"):
        assert word in words, word
    for row in ("return", "length", "discounted return", "the critic expected", "difference"):
        assert f"\n{row} " in shown.stdout, row
    assert "-1.742" in shown.stdout
    record = json.loads(run_wmtk(*options, "--json").stdout)
    again = json.loads(run_wmtk(*options, "--json").stdout)
    assert record["returns"] == again["returns"]
    assert record["imagined"]["expected_returns"] == again["imagined"]["expected_returns"]
    assert (record["task"], record["seed"], record["eval_seed"]) == ("wmtk/Catch-v0", 3, 1)
    assert record["run"] == str(runs / "policy")
    assert record["mean"] == pytest.approx(np.mean(record["returns"]))
    assert record["low"] <= record["mean"] <= record["high"]
    assert record["length"]["mean"] == 79
    assert record["known"] == {"random": -1.742, "optimal": 4.881}
    expected = (record["mean"] + 1.742) / (4.881 + 1.742)
    assert record["reached"]["optimal"] == pytest.approx(expected)
    expected, real, excess = (record["imagined"][k] for k in ("expected", "real", "excess"))
    assert excess["mean"] == pytest.approx(expected["mean"] - real["mean"])
    sentence = record["comparison"]["sentence"]
    assert sentence.startswith("Mean return ")
    assert "random -1.74" in sentence
    assert "than random play" in sentence
    assert sentence in words
    read = EvaluationRecord.from_json(record)
    assert read.returns == tuple(record["returns"])


def test_sampled_actions_are_others(run_wmtk, runs) -> None:
    options = ["eval", runs / "policy", "--episodes", 4, *SHORT, "--json"]
    likeliest, sampled = (
        json.loads(run_wmtk(*options, *more).stdout) for more in ([], ["--sample"])
    )
    assert (likeliest["sample"], sampled["sample"]) == (False, True)
    assert likeliest["imagined"]["real_returns"] != sampled["imagined"]["real_returns"]


def test_a_film_of_the_first_episode(run_wmtk, runs, tmp_path) -> None:
    film = tmp_path / "a.gif"
    done = run_wmtk("eval", runs / "policy", "--episodes", 1, *SHORT, "--video", film, "--json")
    assert done.exit_code == 0, done.stderr
    assert "a.gif: the first episode of environment 0, 8 steps" in done.stderr
    with Image.open(film) as opened:
        assert opened.n_frames == 9


def test_baselines(run_wmtk, runs, functions) -> None:
    right = f"{functions()}:right"
    task = ["--task", "wmtk/Catch-v0", "--episodes", 2, "--json"]
    record = json.loads(run_wmtk("eval", "--policy", right, *task).stdout)
    assert (record["agent"], record["run"], record["imagined"]) == (right, None, None)
    random = run_wmtk("eval", runs / "model", "--policy", "random", *task[2:], "--random", 3)
    record = json.loads(random.stdout)
    assert (record["agent"], record["task"]) == ("random", "wmtk/Catch-v0")
    assert record["measured_random"]["episodes"] == 3
    table = run_wmtk("eval", "--policy", "random", *task[:4], "--random", 2, "--seed", 4)
    assert "random, 2 episodes measured" in table.stdout


def test_random_play_is_shown_where_nothing_is_known(run_wmtk, functions) -> None:
    right = ["eval", "--policy", f"{functions()}:right", "--task"]

    def measured(*options) -> int:
        done = run_wmtk(*options, "--json")
        assert done.exit_code == 0, done.stderr
        chance = json.loads(done.stdout)["measured_random"]
        return chance["episodes"] if chance else 0

    unknown = [*right, "wmtk/Catch-v0", *SHORT]
    assert "random, 3 episodes measured" in run_wmtk(*unknown, "--episodes", 3).stdout
    assert measured(*unknown, "--episodes", 12) == 10
    assert measured(*unknown, "--episodes", 3, "--random", 0) == 0
    assert measured(*unknown, "--episodes", 3, "--random", 4) == 4
    other = ["CartPole-v1", "--workers", 0, "--episodes", 2]  # of gymnasium
    assert measured("eval", "--policy", "random", "--task", *other) == 0
    assert measured("eval", "--policy", "random", "--task", *other, "--random", 1) == 1
    assert measured(*right, "wmtk/Catch-v0", "--episodes", 2) == 0


def test_random_play_that_fails_leaves_the_result(run_wmtk, runs, monkeypatch) -> None:
    def failing(*_) -> None:
        raise EnvironmentFailedError("The environment failed again and again.")

    monkeypatch.setattr("wmtk.agent.policy_evaluation.RandomPolicy", failing)
    done = run_wmtk("eval", runs / "policy", "--episodes", 1, "--random", 2, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["episodes"] == 1
    assert "Random play failed: The environment failed again and again." in done.stderr


def test_the_actor_is_compared_with_random_play_where_nothing_is_known(run_wmtk, runs) -> None:
    options = ["eval", runs / "policy", "--episodes", 2, *SHORT]
    record = json.loads(run_wmtk(*options, "--json").stdout)
    assert (record["known"], record["reached"]) == ({}, {})
    assert record["measured_random"]["episodes"] == 2
    assert "random, 2 episodes measured" in run_wmtk(*options).stdout
    assert "compared with" not in run_wmtk(*options, "--random", 0).stdout


def test_scores_read_the_record(run_wmtk, tmp_path) -> None:
    pytest.importorskip("ale_py")
    options = ["--episodes", 2, "--envs", 2, "--workers", 0, "--env-set", "time_limit=40", "--json"]
    file = tmp_path / "pong.json"
    text = ""
    for seed in (0, 1):
        done = run_wmtk(
            "eval", "--policy", "random", "--task", "atari_pong", "--seed", seed, *options
        )
        assert done.exit_code == 0, done.stderr
        text += done.stdout
    file.write_text(text)
    record = json.loads(done.stdout)
    assert (record["game"], record["random"], record["record"]) == ("pong", -20.7, 21.0)
    assert record["frames"] == 4 * record["steps"]
    scores = json.loads(run_wmtk("scores", file, "--json").stdout)
    (own,) = [agent for agent in scores["agents"] if agent["name"] == "random"]
    assert own["seeds"] == 2
    assert own["games"]["pong"]["score"] == pytest.approx(record["mean"])


@pytest.mark.parametrize(("patience", "whole"), [(12, 1), (5, 0)], ids=["some", "none"])
def test_ctrl_c_reports_what_is_whole(run_wmtk, functions, patience, whole, tmp_path) -> None:
    policy = f"{functions(patience)}:stop"
    options = ["--task", "wmtk/Catch-v0", *SHORT, "--episodes", 5, "--envs", 1, "--json"]
    film = tmp_path / "a.gif"
    done = run_wmtk("eval", "--policy", policy, *options, "--video", film)
    assert done.exit_code == 130
    assert film.exists() == bool(whole)
    if whole:
        record = json.loads(done.stdout)
        assert (record["episodes"], record["interrupted"]) == (1, True)
        assert "1 of 5 episodes" in done.stderr
    else:
        assert done.stdout == ""
        assert "before an episode was complete" in done.stderr
        assert "a.gif was not written" in done.stderr


def test_ctrl_c_in_random_play_keeps_the_rest(run_wmtk, functions, monkeypatch) -> None:
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wmtk.collecting.RandomPolicy.act", interrupt)
    options = ["--task", "wmtk/Catch-v0", *SHORT, "--episodes", 2, "--random", 3, "--json"]
    done = run_wmtk("eval", "--policy", f"{functions()}:right", *options)
    assert done.exit_code == 130
    record = json.loads(done.stdout)
    assert (record["episodes"], record["interrupted"]) == (2, False)
    assert record["measured_random"] is None
    assert "Random play was interrupted" in done.stderr


MISTAKES = {
    "nobody": ([], 2, "--policy random"),
    "a model": (["{runs}/model"], 1, "wmtk train-policy"),
    "no run": (["{runs}"], 1, "no run.json"),
    "no task": (["--policy", "random"], 2, "--task"),
    "wrong task": (["{runs}/policy", "--task", "wmtk/Ctach-v0"], 2, "wmtk/Catch-v0"),
    "other task": (["{runs}/policy", "--task", "wmtk/Reach-v0"], 1, "do not fit"),
    "run as policy": (["--policy", "{runs}/policy"], 2, "without --policy"),
    "no policy": (["--policy", "greedy", "--task", "wmtk/Catch-v0"], 2, "Unknown policy"),
    "no film": (["{runs}/policy", "--video", "film.avi"], 2, ".mp4"),
    "no sample": (["--policy", "random", "--task", "wmtk/Catch-v0", "--sample"], 2, "--sample"),
    "no checkpoint": (["{runs}/policy", "--checkpoint", "99"], 1, "99"),
    "no option": (["{runs}/policy", "--env-set", "color=red"], 2, "Unknown option"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_answered_with_what_to_do(run_wmtk, runs, mistake) -> None:
    options, code, expected = MISTAKES[mistake]
    done = run_wmtk("eval", *(word.format(runs=runs) for word in options))
    assert done.exit_code == code, done.stderr
    assert expected in done.stderr
    assert done.stdout == ""
