"""Numbers that make no sense stop training, say where they come from, and are never saved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from wmtk.datasets import Batch, SequenceSampler, Source
from wmtk.errors import DivergedError
from wmtk.runs.run_directory import Run
from wmtk.training.health import SpikeDetector
from wmtk.training.model_stage import train_model
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.samplers import fixed_batches


@pytest.fixture
def batch(dataset):
    return SequenceSampler(dataset, batch_size=2, length=6).sample()


@pytest.fixture
def trainer(dataset, config, batch) -> ModelTrainer:
    """After one update: the first batch also says where decoders begin."""
    torch.manual_seed(0)
    made = ModelTrainer(config, dataset.schema, torch.device("cpu"))
    made.update(made.inputs(batch), 1)
    return made


def weights(trainer: ModelTrainer) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def test_a_poisoned_batch_is_named_and_leaves_the_weights_alone(trainer, batch) -> None:
    reward = batch.reward.copy()
    reward[1, 3] = np.nan
    before = weights(trainer)
    expected = r"Update 7: loss/reward is nan\. The batch's reward .* in row 3 of window 1\."
    with pytest.raises(DivergedError, match=expected):
        trainer.update(trainer.inputs(replace(batch, reward=reward)), 7)
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())


def test_a_parameter_that_is_not_finite_is_named(trainer, batch) -> None:
    with torch.no_grad():
        trainer.model.reward_head.out.bias.fill_(torch.inf)
    with pytest.raises(DivergedError, match=r"The parameter reward_head\.out\.bias is not finite"):
        trainer.update(trainer.inputs(batch), 7)


def test_a_gradient_that_is_not_finite_is_named(trainer, batch) -> None:
    before = weights(trainer)
    trainer.model.reward_head.out.bias.register_hook(lambda grad: grad * torch.nan)
    expected = r"Update 7: grad_norm/model is nan\. The gradient of reward_head\.out\.bias"
    with pytest.raises(DivergedError, match=expected):
        trainer.update(trainer.inputs(batch), 7)
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer).items())


def test_numbers_that_overflow_in_between_are_told_apart(trainer, batch, monkeypatch) -> None:
    monkeypatch.setattr(trainer.model, "reward", lambda feat: feat[..., 0] * torch.inf)
    with pytest.raises(DivergedError, match="an intermediate result overflowed"):
        trainer.update(trainer.inputs(batch), 7)


def test_a_loss_that_jumps_stops_training() -> None:
    spikes, constants = SpikeDetector(), {"loss/image/image": 5000.0}
    for step in range(100):
        spikes.require_usual(step, {"loss/total": torch.tensor(5010.0)}, constants)
    spikes.require_usual(100, {"loss/total": torch.tensor(5400.0)}, constants)
    # Without its constant the image has 99 of it.
    high = {"loss/kl": 901.0, "loss/image/image": 5099.0, "loss/total": 6000.0}
    with pytest.raises(DivergedError, match=r"Update 101: .* jumped to 1000 from about 10; .*kl"):
        spikes.require_usual(101, {name: torch.tensor(x) for name, x in high.items()}, constants)


def test_a_loss_that_was_next_to_nothing_may_rise() -> None:
    spikes = SpikeDetector()
    for step in range(100):
        spikes.require_usual(step, {"loss/total": torch.tensor(0.01)}, {})
    spikes.require_usual(100, {"loss/total": torch.tensor(2.0)}, {})
    with pytest.raises(DivergedError, match=r"jumped to 60 from about 0\.01"):
        spikes.require_usual(101, {"loss/total": torch.tensor(60.0)}, {})


def test_a_jump_of_the_image_loss_is_seen_beside_its_constant(trainer, batch) -> None:
    inputs = trainer.inputs(batch)
    for step in range(2, 101):
        trainer.update(inputs, step)
    before = weights(trainer)
    with torch.no_grad():
        trainer.model.decoders["image"].last.bias.fill_(2.0)  # every pixel, by more than its range
    broken = weights(trainer)
    with pytest.raises(DivergedError, match=r"Update 101: .* most of it is loss/image/image"):
        trainer.update(inputs, 101)
    assert any(not torch.equal(broken[name], value) for name, value in before.items())
    assert all(torch.equal(value, broken[name]) for name, value in weights(trainer).items())


def poison(number: int, arrays: dict) -> None:
    """Datasets keep infinite observations, such as those of a sensor out of range."""
    if number == 3:
        arrays["obs/state"][5, 1] = np.inf


def test_the_last_good_checkpoint_is_kept(make_dataset, config, tmp_path) -> None:
    data = make_dataset(change=poison, lengths=(6,) * 60)
    often = config.override({"logging.checkpoint_every": 1, "data.batch_size": 1})
    with pytest.raises(DivergedError, match=r"The batch's obs/state is not finite") as caught:
        train_model([Source(data)], tmp_path / "run", often, updates=2000, val_fraction=0)
    run = Run(tmp_path / "run")
    assert f"Update {run.step + 1}: " in caught.value.message
    assert f"checkpoint of update {run.step} is kept" in caught.value.hint
    saved = run.checkpoints.load()
    assert all(torch.isfinite(x).all() for x in saved.tensors.values() if x.is_floating_point())


def test_held_out_data_that_is_not_finite_is_named(dataset, config, tmp_path, monkeypatch) -> None:
    def poisoned(*args) -> list[Batch]:
        batch, *rest = fixed_batches(*args)
        reward = batch.reward.copy()
        reward[1, 3] = np.inf
        return [replace(batch, reward=reward), *rest]

    monkeypatch.setattr("wmtk.training.model_stage.fixed_batches", poisoned)
    often = config.override({"logging.checkpoint_every": 2, "logging.evaluate_every": 3})
    expected = r"Update 3: val/loss/reward .* The batch's reward is not finite in row 3 of window 1"
    with pytest.raises(DivergedError, match=expected) as caught:
        train_model([Source(dataset)], tmp_path / "run", often, updates=9, val_fraction=0.5)
    assert "checkpoint of update 2 is kept" in caught.value.hint
    assert Run(tmp_path / "run").step == 2


def test_a_run_that_fails_at_once_leaves_nothing_behind(make_dataset, config, tmp_path) -> None:
    data = make_dataset(change=lambda _, arrays: arrays["obs/state"].fill(np.inf))
    with pytest.raises(DivergedError, match=r"Update 1: .* row 0 of window 0") as caught:
        train_model([Source(data)], tmp_path / "run", config, updates=10, val_fraction=0)
    assert "no checkpoint yet" in caught.value.hint
    assert not (tmp_path / "run").exists()


def test_the_command_says_so_with_its_exit_code(make_dataset, small, run_wmtk, tmp_path) -> None:
    data = make_dataset(change=poison, lengths=(6,) * 60)
    options = ("--out", tmp_path / "run", *small, "--val-fraction", 0, "--device", "cpu")
    options += ("--set", "logging.checkpoint_every=1", "--set", "data.batch_size=1")
    options += ("--set", "optimizer.lr=1e-3", "--set", "optimizer.warmup=0")
    done = run_wmtk("train-model", data.path, *options)
    assert done.exit_code == 1
    assert "error: Update " in done.stderr
    assert "The batch's obs/state is not finite in row" in done.stderr
    assert "--resume --set optimizer.lr=0.0003" in done.stderr
