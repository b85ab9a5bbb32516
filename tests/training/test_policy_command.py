"""`wmtk train-policy` and `wmtk collect --policy RUN`: from a model to episodes that it played."""

from __future__ import annotations

import json

import pytest

from wmtk.datasets import Dataset
from wmtk.errors import TaskError

SMALL = [
    *("--set", "behavior.layers=1", "--set", "behavior.units=8"),
    *("--set", "behavior.horizon=2", "--set", "behavior.imagination_starts=4"),
]


@pytest.fixture(scope="module")
def model(catch, tmp_path_factory):
    from wmtk.datasets import Source
    from wmtk.training.model_stage import train_model
    from wmtk.training.presets import training_config

    path = tmp_path_factory.mktemp("runs") / "model"
    small = {"model.cnn_depth": 2, "model.units": 8, "model.rssm.deter": 8, "model.rssm.hidden": 8}
    small |= {"model.rssm.stoch": 2, "model.rssm.classes": 4, "data.batch_size": 2}
    config = training_config("tiny", overrides={**small, "data.length": 6})
    train_model([Source(Dataset.open(catch))], path, config, updates=1)
    return path


def test_train_resume_and_play(run_wmtk, model, catch, tmp_path) -> None:
    run, played = tmp_path / "policy", tmp_path / "played.zarr"
    options = ["train-policy", model, "--out", run, *SMALL, "--json"]
    first = run_wmtk(*options, "--updates", 2)
    assert first.exit_code == 0, first.stderr
    assert json.loads(first.stdout)["updates"] == 2
    again = run_wmtk(*options, "--updates", 3)
    assert again.exit_code == 1
    assert "--resume" in again.stderr
    resumed = run_wmtk(*options, "--updates", 3, "--resume")
    assert resumed.exit_code == 0, resumed.stderr
    report = json.loads(resumed.stdout)
    assert report["updates"] == 3
    assert report["last"]["train/entropy/actor"] > 0
    # Played for real, with what the critic expected beside what came.
    test = report["test"]
    assert test["step"] == 3
    assert -5 <= test["eval/return"] <= 5
    assert {"eval/predicted_return", "eval/discounted_return"} <= test.keys()
    assert "random -1.74, the data " in report["comparison"]["sentence"]
    done = run_wmtk("train-policy", model, "--out", run, "--updates", 3, "--resume")
    assert done.exit_code == 0
    assert "finished" in done.stderr
    options = ["--out", played, "--policy", run, "--episodes", 2, "--seed", 0, "--envs", 2]
    collected = run_wmtk("collect", "wmtk/Catch-v0", *options)
    assert collected.exit_code == 0, collected.stderr
    assert Dataset.open(played)[1].provenance.policy == "policy@3"
    named = run_wmtk("train-policy", model, catch, "--out", tmp_path / "b", *SMALL, "--updates", 1)
    assert named.exit_code == 0, named.stderr


def test_an_ensemble_for_caution_and_for_exploring(run_wmtk, model, tmp_path) -> None:
    run, played = tmp_path / "both", tmp_path / "played.zarr"
    train = ["train-policy", model, "--out", run, *SMALL, "--updates", 2]
    done = run_wmtk(*train, "--penalty", 3, "--explore", "disagreement")
    assert done.exit_code == 0, done.stderr
    printed = "".join(done.stdout.split())  # long paths go on in the next line
    expected = ("disagreement", "oftheexplorer", "inanevaluationofupdate2", "thecriticexpected")
    for words in (*expected, f"evaluatewmtkeval{run}"):
        assert words in printed, words
    assert "behavior.penalty is 3.0; it was 0.0" in done.stderr
    resumed = run_wmtk(*train, "--updates", 3, "--resume", "--json")
    report = json.loads(resumed.stdout)["last"]
    assert report["train/disagreement/data"] > 0
    assert report["train/explorer/disagreement/imagined"] > 0
    play = ["collect", "wmtk/Catch-v0", "--episodes", 1, "--seed", 0, "--out"]
    collected = run_wmtk(*play, played, "--policy", run, "--explore", "disagreement")
    assert collected.exit_code == 0, collected.stderr
    run_wmtk(*play, tmp_path / "task.zarr", "--policy", run)
    exploring, task = Dataset.open(played)[0], Dataset.open(tmp_path / "task.zarr")[0]
    assert exploring.provenance.policy == "both/explorer@3"
    assert task.provenance.policy == "both@3"
    assert (exploring.action != task.action).any()  # another actor, with the same dice


def test_without_a_test_there_is_the_command_for_one(run_wmtk, model, tmp_path) -> None:
    run = tmp_path / "run"
    done = run_wmtk("train-policy", model, "--out", run, *SMALL, "--updates", 1, "--test", 0)
    assert done.exit_code == 0, done.stderr
    assert f"realreturnwmtkeval{run}" in "".join(done.stdout.split())


def test_a_task_that_cannot_be_played_is_said_so(run_wmtk, model, tmp_path, monkeypatch) -> None:
    def missing(*_, **__) -> None:
        raise TaskError("There is no task 'their_lab:Robot-v0'.")

    monkeypatch.setattr("wmtk.training.run_setup.task_of", missing)
    done = run_wmtk("train-policy", model, "--out", tmp_path / "run", *SMALL, "--updates", 1)
    assert done.exit_code == 0, done.stderr
    assert "will not be evaluated in the environment: There is no task 'their_lab" in done.stderr


def test_who_cannot_explore_is_told_how(run_wmtk, model, tmp_path) -> None:
    run, played = tmp_path / "policy", tmp_path / "played.zarr"
    assert run_wmtk("train-policy", model, "--out", run, *SMALL, "--updates", 1).exit_code == 0
    for policy, code in ((run, 1), (model, 1), ("random", 2)):
        options = ["--out", played, "--episodes", 1, "--policy", policy, "--explore"]
        refused = run_wmtk("collect", "wmtk/Catch-v0", *options, "disagreement")
        assert refused.exit_code == code
        assert "--explore disagreement" in refused.stderr
        assert not played.exists()
    resumed = run_wmtk(
        "train-policy", model, "--out", run, "--resume", "--updates", 2, "--penalty", 1
    )
    assert resumed.exit_code == 1
    assert "no ensemble" in resumed.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--ablate", "no-brain"], "mixed-gradients"),
        (["--ablate", "binary-latents"], "trained already"),
        (["--set", "behavior.horizn=1"], "behavior.horizon"),
        (["--set", "behavior.lambda_=2"], "less than or equal"),
        (["--set", "model.units=9"], "model.units is 8"),
        (["--device", "quantum"], "wmtk doctor"),
        (["--penalty", "-1"], "--penalty"),
        (["--explore", "everything"], "disagreement"),
    ],
    ids=[
        *("ablation", "other model", "misspelled", "impossible", "model setting", "device"),
        *("penalty", "exploring"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(
    run_wmtk, model, tmp_path, options, expected
) -> None:
    done = run_wmtk("train-policy", model, "--out", tmp_path / "run", *options)
    assert done.exit_code == 2
    assert expected in done.stderr
    assert not (tmp_path / "run").exists()


def test_what_has_no_actor_or_other_spaces_plays_nothing(run_wmtk, model, tmp_path) -> None:
    played = tmp_path / "played.zarr"
    options = ["--out", played, "--policy", model, "--episodes", 1]
    refused = run_wmtk("collect", "wmtk/Catch-v0", *options)
    assert refused.exit_code == 1
    assert "wmtk train-policy" in refused.stderr
    run = tmp_path / "policy"
    assert run_wmtk("train-policy", model, "--out", run, *SMALL, "--updates", 1).exit_code == 0
    options = ["--out", played, "--policy", run, "--episodes", 1]
    refused = run_wmtk("collect", "wmtk/Reach-v0", *options)
    assert refused.exit_code == 1
    assert "do not fit" in refused.stderr
    assert not played.exists()
