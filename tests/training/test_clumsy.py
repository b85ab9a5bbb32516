"""What a clumsy user gets: an error that names the fault, never a traceback or a wrong result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wmtk
from wmtk.collecting import RandomPolicy, collect_episodes, dataset_for, evaluate_policy
from wmtk.datasets import Dataset, Episode, Schema, SequenceSampler, Source
from wmtk.envs import resolve
from wmtk.errors import WmtkError
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model
from wmtk.training.online.train import online
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

SCHEMA = Schema(
    {"state": ArraySpec("box", (4,), "float32")}, ArraySpec("discrete", (), "int64", 0, 1)
)
SMALL = {
    "model.cnn_depth": 2,
    "model.layers": 1,
    "model.units": 8,
    "model.rssm.deter": 8,
    "model.rssm.hidden": 8,
    "model.rssm.stoch": 2,
    "model.rssm.classes": 4,
    "behavior.layers": 1,
    "behavior.units": 8,
    "data.batch_size": 2,
    "data.length": 6,
}
CONFIG = training_config("tiny", overrides=SMALL)


@pytest.fixture(scope="module")
def shelf(catch: Path, tmp_path_factory) -> Path:
    """catch.zarr, cart.zarr, empty.zarr, model, policy, a file and a folder."""
    folder = tmp_path_factory.mktemp("shelf")
    (folder / "catch.zarr").symlink_to(catch)
    task = resolve("CartPole-v1")
    with dataset_for(task, folder / "cart.zarr") as dataset:
        random = RandomPolicy(dataset.schema.action, [0])
        collect_episodes(task, dataset, random, seed=0, episodes=4, workers=0)
    Dataset.create(folder / "empty.zarr", Dataset.open(catch).schema).close()
    with Dataset.create(folder / "one.zarr", SCHEMA) as dataset:
        row = {"state": np.zeros(4, np.float32)}
        dataset.append(
            Episode.from_transitions(
                SCHEMA, [row] * 2, [0], [1.0], terminated=True, truncated=False
            )
        )
    train_model([catch], folder / "model", CONFIG, updates=1, val_fraction=0.0)
    train_model([folder / "cart.zarr"], folder / "other", CONFIG, updates=1, val_fraction=0.0)
    train_policy(folder / "model", folder / "policy", updates=1, episodes=0)
    (folder / "file").write_text("hello")
    (folder / "folder").mkdir()
    return folder


CATCH = "wmtk/Catch-v0"
COMMANDS = [
    # Settings, and options of the environment
    (f"online {CATCH} --out new --set sticky=0", "option of another environment", "--env-set"),
    (f"online {CATCH} --out new --set size=32", "option of the environment", "--env-set size=32"),
    (f"online {CATCH} --out new --env-set size", "--env-set size lacks a value"),
    ("train-model catch.zarr --out new --set sticky=0", "wmtk collect --env-set sticky"),
    (
        "train-model catch.zarr --out new --set online.train_every=3",
        "does not use",
        "online.train_every",
    ),
    ("train-model catch.zarr --out new --set behavior.entropy=3", "does not use", "model.*"),
    ("train-policy model --out new --set online.train_every=3", "does not use", "behavior.*"),
    ("train-policy model --out new --set optimizer.lr=1", "does not use the setting optimizer"),
    ("train-policy model --out new --set model.units=9", "model.units is 8"),
    ("train-policy model --out new --penalty inf", "behavior.penalty = inf", "finite"),
    ("train-model catch.zarr --out new --set optimizer.lr=NaN", "optimizer.lr"),
    ("train-model catch.zarr --out new --set model=3", "model = 3"),
    ("train-model catch.zarr --out new --set data.batch_size=100000000000", "Out of memory"),
    # Numbers
    ("train-model catch.zarr --out new --seed 99999999999999999999", "--seed"),
    (f"online {CATCH} --out new --seed 99999999999999999999", "--seed"),
    ("train-policy model --out new --seed 99999999999999999999", "--seed"),
    ("eval policy --seed 99999999999999999999", "--seed"),
    ("eval policy --episodes 0", "--episodes"),
    ("train-model catch.zarr --out new --updates -3", "--updates"),
    ("train-model catch.zarr=x --out new", "'x' is not a weight"),
    # A run for a dataset, a dataset for a run, anything for a task
    ("train-model model --out new", "model holds no dataset", "It is a run directory"),
    ("train-policy model model --out new", "It is a run directory"),
    ("data info model", "It is a run directory"),
    ("viz metrics catch.zarr model", "not a run directory", "It is a dataset"),
    ("train-policy catch.zarr --out new", "not a run directory", "It is a dataset"),
    ("eval catch.zarr", "It is a dataset"),
    ("train-policy file --out new", "not a run directory"),
    ("eval file", "not a run directory"),
    ("eval model", "it has no actor"),
    ("eval", "No policy given: pass a run directory"),
    ("eval --policy random", "No task given"),
    ("online catch.zarr --out new", "catch.zarr is a dataset, not a task"),
    ("online model --out new", "model is a run directory, not a task"),
    ("collect folder --out new --steps 9", "folder is a folder, not a task"),
    (f"online {CATCH} --out model --resume --steps 2000", "is a model run, not one of kind online"),
    (f"collect {CATCH} --out new", "exactly one of --steps"),
    # Empty and short data, other spaces
    ("train-model empty.zarr --out new", "no episode"),
    ("train-model one.zarr --out new --val-fraction 0", "fewer than one window", "data.length"),
    ("train-policy model empty.zarr --out new", "no episode"),
    ("train-policy model cart.zarr --out new", "do not fit together", "obs/image"),
    ("eval policy --task CartPole-v1", "do not fit together"),
    (f"online {CATCH} --out new --init other", "do not fit together", "obs/state"),
    ("online CartPole-v1 --out new --init model", "do not fit together", "obs/image"),
    ("data merge catch.zarr cart.zarr --out new", "differ in their arrays"),
    ("data sheet empty.zarr", "no episode to show"),
    # Places that cannot be written
    ("train-model catch.zarr --out file/run", "file is not a folder"),
    ("train-policy model --out file/run", "file is not a folder"),
    (f"online {CATCH} --out file/run", "file is not a folder"),
    ("train-model catch.zarr --out /proc/run", "/proc/run cannot be written"),
    (f"online {CATCH} --out /proc/run", "/proc/run cannot be written"),
    (
        f"collect {CATCH} --out /proc/run/d --steps 9",
        "cannot be written: no folder can be created in /proc",
    ),
    ("data play catch.zarr --out /proc/film.mp4", "/proc/film.mp4 could not be written: No such"),
    ("train-model catch.zarr --out one.zarr/run", "is inside of the dataset"),
    (f"collect {CATCH} --out model --steps 9", "exists already and is not a dataset"),
    ("data export catch.zarr --format d4rl --out file/x.hdf5", "not a folder"),
    ("data sheet catch.zarr --out file/a.png", "file is not a folder"),
    ("eval policy --video file/film.gif", "file is not a folder"),
    ("eval policy --video film.avi", ".avi"),
    ("eval policy --video film", "no ending"),
    ("viz openloop model catch.zarr file/out.png", "file is not a folder"),
    # Devices
    ("train-model catch.zarr --out new --device cuda:99", "cuda:99", "wmtk doctor"),
    ("eval policy --device banana", "banana"),
]


@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case[0])
def test_a_wrong_command_says_what_is_wrong(run_wmtk, shelf, monkeypatch, case) -> None:
    monkeypatch.chdir(shelf)
    line, *words = case
    before = sorted(shelf.iterdir())
    done = run_wmtk(*line.split())
    assert done.exit_code in {1, 2}, done.stdout
    for word in words:
        assert word in done.stderr, done.stderr
    for never in ("not foreseen", "Unexpected error", "Traceback", "Errno"):
        assert never not in done.stderr
    assert sorted(shelf.iterdir()) == before


ROW = {"state": np.zeros(4, np.float32)}


def transitions(obs=None, actions=(0, 1), rewards=(0.0, 1.0), **more):
    obs = [ROW] * 3 if obs is None else obs
    more = {"terminated": True, "truncated": False} | more
    return Episode.from_transitions(SCHEMA, obs, actions, rewards, **more)


CALLS = {
    "arrays": (
        lambda: transitions(np.zeros((3, 4), np.float32)),
        "[{'state': row} for row in obs]",
    ),
    "list of arrays": (lambda: transitions([np.zeros(4)] * 3), "obs[0] is an array of shape (4,)"),
    "gymnasium's pairs": (lambda: transitions([(np.zeros(4), {})] * 3), "not a dictionary"),
    "dict of arrays": (lambda: transitions({"state": np.zeros((3, 4))}), "obs is a dict"),
    "generator": (lambda: transitions(ROW for _ in range(3)), "obs is a generator"),
    "missing key": (lambda: transitions([{"x": 1}] * 3), "no key 'state'"),
    "number of actions": (lambda: transitions(actions=2), "actions is a int"),
    "no rewards": (lambda: transitions(rewards=None), "rewards is a NoneType"),
    "column of rewards": (lambda: transitions(rewards=np.zeros((2, 1))), "reward at step 0"),
    "text as rewards": (lambda: transitions(rewards=["a", "b"]), "reward at step 0"),
    "ragged actions": (lambda: transitions(actions=[0, [1, 2]]), "action at step 1 has shape (2,)"),
    "ragged action": (lambda: transitions(actions=[0, [[1], [2, 3]]]), "action at step 1 is no"),
    "half an action": (lambda: transitions(actions=[0, 0.5]), "action at step 1 is 0.5"),
    "action of no number": (lambda: transitions(actions=[0, np.nan]), "action at step 1 is nan"),
    "huge action": (lambda: transitions(actions=[0, 2**80]), "action at step 1"),
    "text as actions": (lambda: transitions(actions="01"), "actions is a str"),
    "an ending per step": (
        lambda: transitions(terminated=np.array([False, True])),
        "terminated has shape (2,)",
    ),
    "text as an ending": (lambda: transitions(truncated="no"), "truncated is 'no'"),
    "mode": (lambda: Dataset.open("catch.zarr", "w"), "mode 'w'"),
    "slice of episodes": (lambda: Dataset.open("catch.zarr")[0:2], "slice(0, 2, None) is not"),
    "name of an episode": (lambda: Dataset.open("catch.zarr")["a"], "'a' is not the number"),
    "half an episode": (lambda: Dataset.open("catch.zarr")[0.5], "one at a time"),
    "version": (lambda: Dataset.open("catch.zarr", version=-4), "-4 is not a version"),
    "schema": (lambda: Dataset.create("new", {"state": 4}), "a dict, not a Schema"),
    "append": (lambda: Dataset.open("empty.zarr", "a").append({"a": 1}), "A dict is not"),
    "append nothing": (lambda: Dataset.open("empty.zarr", "a").append(None), "NoneType is not"),
    "sampler of a number": (lambda: SequenceSampler(3, batch_size=2, length=5), "A int is not"),
    "sampler of nothing": (lambda: SequenceSampler([], batch_size=2, length=5), "at least one"),
    "sampler of halves": (
        lambda: SequenceSampler("catch.zarr", batch_size=2.5, length=5),
        "whole numbers",
    ),
    "batch": (lambda: SequenceSampler("catch.zarr", batch_size=2, length=5).sample(-1), "batch -1"),
    "no data": (lambda: train_model([], "new", CONFIG, updates=1), "no data to train on"),
    "a run as data": (lambda: train_model(["model"], "new", CONFIG, updates=1), "run directory"),
    "weights": (
        lambda: train_model([Source(Dataset.open("catch.zarr"), 0.0)], "new", CONFIG, updates=1),
        "weights [0.0]",
    ),
    "steps": (lambda: train_model(["catch.zarr"], "new", CONFIG, updates=0), "updates is 0"),
    "config": (
        lambda: train_model(["catch.zarr"], "new", SMALL, updates=1),
        "not a TrainingConfig",
    ),
    "device": (
        lambda: train_model(["catch.zarr"], "new", CONFIG, updates=1, device="cuda:99"),
        "cuda:99",
    ),
    "policy of data": (
        lambda: train_policy("catch.zarr", "new", updates=1, episodes=0),
        "It is a dataset",
    ),
    "policy steps": (lambda: train_policy("model", "new", updates=-1, episodes=0), "updates is -1"),
    "online of a name": (lambda: online("nothing", "new", CONFIG, steps=9), "Unknown task"),
    "online steps": (lambda: online(CATCH, "new", CONFIG, steps=-5), "steps is -5"),
    "collect nothing": (
        lambda: collect_episodes(
            resolve("CartPole-v1"),
            Dataset.open("cart.zarr", "a"),
            RandomPolicy(SCHEMA.action, [0]),
            seed=0,
            episodes=0,
            workers=0,
        ),
        "1 or more",
    ),
    "evaluate seed": (
        lambda: evaluate_policy("CartPole-v1", lambda _: 0, episodes=1, seed=-3, workers=0),
        "seed -3",
    ),
    "evaluate policy": (
        lambda: evaluate_policy("CartPole-v1", lambda _: "x", episodes=1, seed=0, workers=0),
        "<lambda>",
    ),
    "load data": (lambda: wmtk.load("catch.zarr"), "It is a dataset"),
    "observe an array": (
        lambda: wmtk.load("model").observe(np.zeros((5, 64, 64, 1), np.uint8)),
        "A ndarray is not an episode",
    ),
    "imagine a list": (
        lambda: wmtk.load("model").imagine(
            wmtk.load("model").observe(Dataset.open("catch.zarr")[0]).at(5), [1, 2]
        ),
        "do not go together",
    ),
}


@pytest.mark.parametrize(("call", "words"), CALLS.values(), ids=CALLS)
def test_a_wrong_call_raises_a_wmtk_error(shelf, monkeypatch, call, words) -> None:
    monkeypatch.chdir(shelf)
    before = sorted(shelf.iterdir())
    with pytest.raises(WmtkError) as caught:
        call()
    assert words in str(caught.value)
    assert sorted(shelf.iterdir()) == before


def test_paths_and_functions_are_taken_where_they_can_be(shelf, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(shelf)
    run = train_model(["catch.zarr"], str(tmp_path / "run"), CONFIG, updates=1, val_fraction=0.0)
    assert run.step == 1
    assert SequenceSampler("catch.zarr", batch_size=2, length=5).sample().reward.shape == (2, 5)
    report = evaluate_policy("CartPole-v1", lambda _: 0, episodes=1, seed=0, workers=0)
    assert report.lengths[0] < 20
