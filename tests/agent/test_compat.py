"""Checkpoints written before the GRU had a bias in front of its layer norm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

import wmtk
from wmtk.datasets import Dataset, SequenceSampler, Source
from wmtk.errors import CheckpointError
from wmtk.runs.checkpoint import Checkpoints
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.model_stage import train_model
from wmtk.training.model_trainer import ModelTrainer

BIAS = "rssm.cell.linear.bias"
CPU = torch.device("cpu")


def former(trainer: ModelTrainer) -> dict[str, Tensor]:
    """What the trainer would have saved without the bias."""
    names = [name for name, _ in trainer.model.named_parameters()]
    position, found = names.index(BIAS), {}
    for key, value in trainer.state_dict().items():
        start, _, rest = key.partition("adam/model/")
        if start == "" and rest:
            index, _, moment = rest.partition("/")
            if int(index) == position:
                continue
            key = f"adam/model/{int(index) - (int(index) > position)}/{moment}"
        if key != f"model/{BIAS}":
            found[key] = value
    return found


def trained(config: TrainingConfig, dataset: Dataset, updates: int) -> ModelTrainer:
    """A trainer whose bias never got a gradient, and so is as if it were not there."""
    torch.manual_seed(0)
    trainer = ModelTrainer(config, dataset.schema, CPU)
    bias = trainer.model.get_parameter(BIAS)
    hook = bias.register_hook(torch.zeros_like)
    learn(trainer, dataset, range(1, updates + 1))
    hook.remove()
    assert not bias.any()
    return trainer


def learn(trainer: ModelTrainer, dataset: Dataset, steps: range) -> list[float]:
    sampler = SequenceSampler([Source(dataset)], batch_size=2, length=6, seed=0)
    inputs = trainer.inputs(sampler.sample())
    found = []
    for step in steps:
        torch.manual_seed(step)
        found.append(float(trainer.update(inputs, step)[1]["loss/total"]))
    return found


@pytest.mark.parametrize("eps_before_correction", [False, True])
def test_training_goes_on_as_if_the_bias_had_been_zero(
    eps_before_correction: bool, dataset: Dataset, config: TrainingConfig, tmp_path: Path
) -> None:
    config = config.override({"optimizer.eps_before_correction": eps_before_correction})
    trainer = trained(config, dataset, 3)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, former(trainer), {})
    saved: Mapping[str, Tensor] = checkpoints.load().tensors
    assert len(saved) == len(trainer.state_dict()) - 4  # the bias, its moments and its step
    resumed = ModelTrainer(config, dataset.schema, CPU)
    resumed.load_state_dict(saved)
    for step in (4, 7):
        mine, other = trainer.state_dict(), resumed.state_dict()
        assert mine.keys() == other.keys()
        assert [name for name in mine if not torch.equal(mine[name], other[name])] == []
        steps = range(step, step + 3)
        assert learn(trainer, dataset, steps) == learn(resumed, dataset, steps)
    assert resumed.model.get_parameter(BIAS).any()  # it learns from now on


def test_a_run_without_the_bias_loads(
    dataset: Dataset, config: TrainingConfig, tmp_path: Path
) -> None:
    run = train_model([Source(dataset)], tmp_path / "run", config, updates=4, seed=0)
    saved = run.checkpoints.load()
    now = wmtk.load(run.path)
    weights = {k: v for k, v in saved.tensors.items() if k != f"model/{BIAS}"}
    run.checkpoints.save(5, weights, saved.state)
    before = wmtk.load(run.path, "5")
    assert not before.model.get_parameter(BIAS).any()
    assert (now.encode(dataset[0]) == before.encode(dataset[0])).all()
    without = {k: v for k, v in weights.items() if k != "model/rssm.from_action.bias"}
    run.checkpoints.save(6, without, saved.state)
    with pytest.raises(CheckpointError, match=r"from_action\.bias"):
        wmtk.load(run.path, "6")
