"""`wmtk online` and `wmtk runs`, and what other commands make of an online run."""

from __future__ import annotations

import json

import pytest

from wmtk.datasets import Dataset
from wmtk.runs.run_directory import Run

PACE = {"prefill": 60, "pretrain": 2, "train_every": 16, "envs": 1, "evaluate": 160, "episodes": 1}
SMALL = ["--set", "behavior.layers=1", "--set", "behavior.units=8"]
SMALL += ["--set", "behavior.horizon=2"]
SMALL += [word for name, value in PACE.items() for word in ("--set", f"online.{name}={value}")]


@pytest.fixture
def online(run_wmtk, small, tmp_path):
    def run(*options, out="run", task="wmtk/Catch-v0", set_up=(*SMALL,)):
        return run_wmtk("online", task, "--out", tmp_path / out, *small, *set_up, *options)

    return run


def test_play_resume_and_use(online, run_wmtk, tmp_path) -> None:
    run = tmp_path / "run"
    first = online("--steps", 160, "--json")
    assert first.exit_code == 0, first.stderr
    assert "preset tiny on cpu; one update every 16 steps" in first.stderr
    result = json.loads(first.stdout)
    assert result["finished"]
    assert (result["updates"], result["steps"], result["frames"]) == (8, 237, 237)
    assert result["tested"]["eval/length"] == 79
    assert 0 < sum(result["time"].values()) <= 1.001
    refused = online("--steps", 160)
    assert refused.exit_code == 1
    assert "--resume" in refused.stderr
    # Without options everything stays as it was.
    again = run_wmtk("online", "wmtk/Catch-v0", "--out", run, "--resume", "--json")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["updates"] == 8
    more = run_wmtk("online", "wmtk/Catch-v0", "--out", run, "--resume", "--steps", 260)
    assert more.exit_code == 0, more.stderr
    assert "settings of the run, from update 8" in more.stderr
    assert Run(run).step == 2 + (260 - 60) // 16
    printed = "".join(more.stdout.split())  # long paths go on in the next line
    assert f"usewmtkeval{run}" in printed
    assert "%work:" in printed

    tested = run_wmtk("eval", run, "--episodes", 1, "--json")
    assert tested.exit_code == 0, tested.stderr
    assert json.loads(tested.stdout)["task"] == "wmtk/Catch-v0"
    played = tmp_path / "played.zarr"
    options = ["--policy", run, "--out", played, "--episodes", 1, "--seed", 0]
    collected = run_wmtk("collect", "wmtk/Catch-v0", *options)
    assert collected.exit_code == 0, collected.stderr
    assert Dataset.open(played)[0].provenance.policy == "run@14"
    policy = run_wmtk("train-policy", run, "--out", tmp_path / "policy", "--updates", 1)
    assert policy.exit_code == 0, policy.stderr
    assert Run(tmp_path / "policy").about["data"][0]["path"] == str(run / "replay.zarr")
    model = ["train-model", run / "replay.zarr", "--out", run, "--updates", 1, "--resume"]
    refused = run_wmtk(*model)
    assert refused.exit_code == 1
    assert "wmtk online" in refused.stderr


@pytest.mark.slow
def test_metrics_of_an_online_run(online, run_wmtk, tmp_path) -> None:
    assert online("--steps", 160).exit_code == 0
    run = tmp_path / "run"
    shown = run_wmtk("viz", "metrics", run, run / "replay.zarr", "--json")
    assert shown.exit_code == 0, shown.stderr


def test_options_of_the_task_and_of_the_beginning(online, run_wmtk, catch, small, tmp_path) -> None:
    model = tmp_path / "model"
    train = ["train-model", catch, "--out", model, "--updates", 1, *small]
    assert run_wmtk(*train).exit_code == 0
    begin = ["--init", model, "--data", f"{catch}=2", "--set", "online.prefill=0", "--steps", 20]
    begin += SMALL[:6]  # what train-model has no use for
    options = [*begin, "--env-set", "repeat=2", "--envs", 2, "--explore", "disagreement"]
    # Without a preset, the settings are those of the model.
    done = online(*options, set_up=("--set", "online.train_every=10", "--set", "online.episodes=0"))
    assert done.exit_code == 0, done.stderr
    assert f"settings of {model}" in done.stderr
    run = Run(tmp_path / "run")
    assert run.about["env"]["repeat"] == 2
    assert run.about["init"]["step"] == 1
    assert run.about["data"][0]["weight"] == 2
    assert run.config()["online"]["envs"] == 2
    assert run.config()["behavior"]["explore"] == "disagreement"
    assert run.config()["model"]["cnn_depth"] == 2
    words = ["online", "wmtk/Catch-v0", "--out", run.path, "--resume", "--data", f"{catch}=2"]
    resumed = run_wmtk(*words, "--steps", 60)
    assert resumed.exit_code == 0, resumed.stderr
    other = run_wmtk(*words, "--env-set", "repeat=3")
    assert other.exit_code == 1
    assert "repeat" in other.stderr


def test_what_makes_no_sense_is_refused(online, tmp_path) -> None:
    few = online("--steps", 20)
    assert few.exit_code == 2
    assert "--set online.prefill" in few.stderr
    unknown = online("--ablate", "no-balancing")
    assert unknown.exit_code == 2
    assert "no-kl-balancing" in unknown.stderr
    assert not (tmp_path / "run").exists()


def test_runs_are_listed_with_their_state_and_score(
    online, run_wmtk, catch, small, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("wmtk.training.health.MIN_UPDATES", 2)
    monkeypatch.setattr("wmtk.training.health.MIN_KL", 1e9)
    done = online("--steps", 160, out="here/agent")
    assert done.exit_code == 0
    assert "the latents have collapsed" in done.stderr
    model = ["train-model", catch, "--out", tmp_path / "here" / "model", *small, "--updates", 3]
    assert run_wmtk(*model).exit_code == 0
    broken = tmp_path / "here" / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{}")
    listed = run_wmtk("runs", tmp_path / "here", "--json")
    assert listed.exit_code == 0, listed.stderr
    agent, bad, world = json.loads(listed.stdout)
    assert bad["state"] == "damaged"
    assert (agent["kind"], agent["state"], agent["task"]) == ("online", "finished", "wmtk/Catch-v0")
    assert (agent["updates"], agent["steps"], agent["measure"]) == (8, 237, "return")
    assert (world["kind"], world["state"], world["measure"]) == ("model", "finished", "loss")
    assert world["best"] > 0
    assert world["last"] >= world["best"]
    assert "random play" in world["comparison"]["judgment"]
    assert "random -1.74, the data " in agent["comparison"]["sentence"]
    with Run(tmp_path / "here" / "agent").lock():
        monkeypatch.chdir(tmp_path / "here")
        shown = run_wmtk("runs")
    words = " ".join(shown.stdout.split())
    assert "agent online running wmtk/Catch-v0 8 237 return" in words
    for line in (agent, world):
        assert line["comparison"]["sentence"] in words  # in lines of their own, not in a column
    assert world["comparison"]["sentence"].startswith("The data's mean return")
    assert run_wmtk("runs", tmp_path / "nowhere").exit_code == 2
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no runs" in run_wmtk("runs", empty).stderr
