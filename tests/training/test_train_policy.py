"""Training a policy in a frozen model: resuming bit for bit, its data, what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

import wmtk
from wmtk.datasets import Dataset, Source
from wmtk.errors import ConfigError, RunError, SchemaMismatchError
from wmtk.runs.listing import list_runs
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import module_state
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy

BEHAVIOR = {
    "behavior.layers": 1,
    "behavior.units": 8,
    "behavior.horizon": 3,
    "behavior.imagination_starts": 5,
    "behavior.target_update_every": 3,
}


@pytest.fixture
def model_run(dataset, config, tmp_path):
    run = train_model([Source(dataset)], tmp_path / "model", config.override(BEHAVIOR), updates=2)
    return run.path


CHANGES = [{}, {"behavior.penalty": 2.0, "behavior.explore": "disagreement"}]


@pytest.mark.parametrize("changes", CHANGES, ids=["plain", "with an ensemble"])
def test_two_halves_are_the_whole_bit_for_bit(model_run, tmp_path, changes) -> None:
    config = TrainingConfig.build(Run(model_run).config()).override(changes)
    whole = train_policy(
        model_run, tmp_path / "whole", updates=8, config=config, episodes=0
    ).checkpoints.load()
    train_policy(model_run, tmp_path / "halves", updates=4, config=config, episodes=0)
    shutil.rmtree(model_run)  # the run has its own copy by now
    halves = train_policy(
        model_run, tmp_path / "halves", updates=8, resume=True, episodes=0
    ).checkpoints.load()
    assert whole.tensors.keys() == halves.tensors.keys()
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, halves.tensors[name]), name
    assert whole.hash == halves.hash
    parts = {name.partition("/")[0] for name in whole.tensors}
    assert ({"ensemble", "explorer"} <= parts) == bool(changes)


def test_a_test_at_the_end_changes_nothing_that_is_learned(model_run, tmp_path) -> None:
    alone = train_policy(model_run, tmp_path / "alone", updates=4, episodes=0).checkpoints.load()
    test = {"task": "wmtk/Catch-v0", "workers": 0, "episodes": 2}
    train_policy(model_run, tmp_path / "tested", updates=2, **test)
    run = train_policy(model_run, tmp_path / "tested", updates=4, **test, resume=True)
    assert run.checkpoints.load().hash == alone.hash
    lines = [json.loads(x) for x in (run.path / "metrics.jsonl").read_text().splitlines()]
    tests = [line for line in lines if "eval/return" in line]
    assert [line["step"] for line in tests] == [2, 4]
    assert [line.measure for line in list_runs(run.path)] == ["return"]


def test_stopping_anywhere_and_going_on_is_no_difference(model_run, tmp_path) -> None:
    whole = train_policy(model_run, tmp_path / "whole", updates=5, episodes=0).checkpoints.load()
    train_policy(
        model_run,
        tmp_path / "stopped",
        updates=5,
        stop=iter([False, False, True]).__next__,
        episodes=0,
    )
    assert Run(tmp_path / "stopped").step == 3
    rest = train_policy(
        model_run, tmp_path / "stopped", updates=5, resume=True, episodes=0
    ).checkpoints.load()
    assert rest.hash == whole.hash


def test_the_model_stays_as_it_was(model_run, tmp_path) -> None:
    before = wmtk.load(model_run)
    run = train_policy(model_run, tmp_path / "run", updates=4, episodes=0)
    after = run.checkpoints.load().tensors
    for name, tensor in module_state("model", before.model).items():
        assert torch.equal(after[name], tensor), name
    assert run.about["model"]["hash"] == before.hash
    assert run.about["model"]["step"] == before.step == 2
    assert run.about["env"]["env_id"] == "wmtk/Catch-v0"


def test_metrics_are_logged(model_run, tmp_path) -> None:
    train_policy(model_run, tmp_path / "run", updates=4, episodes=0)
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    names = {name.removeprefix("train/") for name in lines[-1]}
    assert {
        "imagined/return",
        "imagined/discount",
        "imagined/weight",
        "critic/value",
        "critic/target",
        "critic/target_gap",
        "actor/advantage",
        "actor/probability/0",
        "entropy/actor",
        "grad_norm/actor",
        "grad_norm/critic",
        "lr/actor",
        "time/updates_per_second",
    } <= names
    assert all(np.isfinite(value) for value in lines[-1].values())
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_settings_are_the_models_with_changes(model_run, tmp_path) -> None:
    settings = TrainingConfig.build(Run(model_run).config())
    run = train_policy(
        model_run,
        tmp_path / "run",
        updates=2,
        config=settings.override({"behavior.horizon": 2, "data.batch_size": 3}),
        episodes=0,
    )
    assert run.config()["behavior"]["horizon"] == 2
    assert run.config()["model"] == Run(model_run).config()["model"]
    changed = settings.override({"model.rssm.deter": 9})
    with pytest.raises(ConfigError, match=r"model\.rssm\.deter is 8"):
        train_policy(model_run, tmp_path / "other", updates=2, config=changed, episodes=0)
    assert not (tmp_path / "other").exists()


def test_other_data_may_be_named_if_it_fits(model_run, tmp_path, dataset, make_dataset) -> None:
    run = train_policy(
        model_run, tmp_path / "run", updates=2, datasets=[Source(dataset, 2.0)], episodes=0
    )
    assert run.about["data"][0]["weight"] == 2.0
    with pytest.raises(SchemaMismatchError, match="image"):
        train_policy(
            model_run, tmp_path / "no", updates=2, datasets=[Source(make_dataset())], episodes=0
        )
    assert not (tmp_path / "no").exists()


def test_data_that_is_gone_is_asked_for(dataset, config, tmp_path) -> None:
    copy = tmp_path / "copy.zarr"
    shutil.copytree(dataset.path, copy)
    settings = config.override(BEHAVIOR)
    train_model([Source(Dataset.open(copy))], tmp_path / "model", settings, updates=2)
    shutil.rmtree(copy)
    with pytest.raises(RunError, match="Pass the datasets"):
        train_policy(tmp_path / "model", tmp_path / "run", updates=2, episodes=0)
    assert not (tmp_path / "run").exists()
    train_policy(
        tmp_path / "model", tmp_path / "run", updates=2, datasets=[Source(dataset)], episodes=0
    )


def test_what_cannot_be_resumed(model_run, tmp_path) -> None:
    train_policy(model_run, tmp_path / "run", updates=2, seed=1, episodes=0)
    with pytest.raises(RunError, match="resume=True"):
        train_policy(model_run, tmp_path / "run", updates=4, episodes=0)
    with pytest.raises(RunError, match="with seed 1, not 2"):
        train_policy(model_run, tmp_path / "run", updates=4, seed=2, resume=True, episodes=0)
    with pytest.raises(RunError, match="is a model run"):
        train_policy(model_run, model_run, updates=4, resume=True, episodes=0)
    with pytest.raises(RunError, match=r"no run\.json"):
        train_policy(tmp_path, tmp_path / "other", updates=4, episodes=0)


def test_a_policy_run_can_be_the_model_of_another(model_run, tmp_path) -> None:
    train_policy(model_run, tmp_path / "first", updates=2, episodes=0)
    again = train_policy(tmp_path / "first", tmp_path / "second", updates=2, seed=5, episodes=0)
    assert again.kind == "policy"
