"""Tests that were interrupted are made up for on resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wmtk.datasets import Source
from wmtk.envs import resolve
from wmtk.errors import EnvironmentFailedError
from wmtk.runs.listing import summarize_run
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.run_directory import Run
from wmtk.training import policy_stage as policy_module
from wmtk.training.model_stage import train_model
from wmtk.training.online import agent_trainer as online_module
from wmtk.training.online.train import online
from wmtk.training.policy_stage import train_policy

CATCH = resolve("wmtk/Catch-v0")
BEHAVIOR = {"behavior.layers": 1, "behavior.units": 8, "behavior.horizon": 2}


@pytest.fixture
def config(config):
    pace = {
        "prefill": 60,
        "pretrain": 2,
        "train_every": 16,
        "envs": 1,
        "evaluate": 80,
        "episodes": 1,
    }
    return config.override({**BEHAVIOR, **{f"online.{name}": x for name, x in pace.items()}})


@pytest.fixture
def model(dataset, config, tmp_path) -> Path:
    return train_model([Source(dataset)], tmp_path / "model", config, updates=1).path


@pytest.fixture
def interrupt(monkeypatch) -> Callable[..., Any]:
    """Let the nth test of a module end early: stopped, or by an error."""

    def at(module: Any, number: int, error: Exception | None = None) -> Callable[[], bool]:
        original, calls = module.run_eval, []

        def run_eval(*args: Any) -> Any:
            calls.append(args)
            if len(calls) != number:
                return original(*args)
            if error is not None:
                raise error
            return None

        monkeypatch.setattr(module, "run_eval", run_eval)
        return lambda: len(calls) == number and error is None

    return at


def evaluations(run: Path) -> list[tuple[int, float]]:
    return [(r["step"], r["eval/return"]) for r in read_metrics(run) if "eval/return" in r]


def test_the_test_at_the_end_of_a_policy(model, tmp_path, interrupt) -> None:
    options = {"updates": 2, "episodes": 2, "task": CATCH, "workers": 0}
    whole = train_policy(model, tmp_path / "whole", **options)
    out, stop = tmp_path / "run", interrupt(policy_module, 1)
    run = train_policy(model, out, stop=stop, **options)
    assert run.step == 2
    assert evaluations(out) == []
    assert summarize_run(out).state == "stopped"
    train_policy(model, out, resume=True, **options)
    assert evaluations(out) == evaluations(whole.path)
    assert summarize_run(out).state == "finished"
    train_policy(model, out, resume=True, **options)
    assert len(evaluations(out)) == 1  # once is enough


# A test whose result is the best so far is confirmed by a second one.
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("error", [None, EnvironmentFailedError("It broke.", "Fix it.")])
def test_any_test_of_an_online_run(config, tmp_path, interrupt, number, error) -> None:
    out, stop = tmp_path / "run", interrupt(online_module, number, error)
    if error is None:
        online(CATCH, out, config, steps=160, workers=0, stop=stop)
    else:
        with pytest.raises(EnvironmentFailedError, match="It broke"):
            online(CATCH, out, config, steps=160, workers=0)
    assert Run(out).state().owes_test
    assert summarize_run(out).state == "stopped"
    interrupted = Run(out).step
    assert interrupted not in dict(evaluations(out))
    online(CATCH, out, config, steps=160, workers=0, resume=True)
    steps = [step for step, _ in evaluations(out)]
    assert interrupted in steps
    assert steps == sorted(set(steps))
    assert steps[-1] == config.online.updates_at(160)
    assert summarize_run(out).state == "finished"


def test_the_command_says_so_and_makes_up_for_it(model, tmp_path, interrupt, run_wmtk) -> None:
    interrupt(policy_module, 1)
    command = ["train-policy", model, "--out", tmp_path / "run", "--updates", 1, "--test", 1]
    stopped = run_wmtk(*command)
    assert stopped.exit_code == 130
    assert "--resume" in stopped.stderr
    done = run_wmtk(*command, "--resume")
    assert done.exit_code == 0, done.stderr
    assert len(evaluations(tmp_path / "run")) == 1
    assert "finished" in run_wmtk(*command, "--resume").stderr
