"""Fewer bits and compiled code learn what float32 and plain code learn."""

from __future__ import annotations

import shutil

import pytest
import torch

from wmtk.datasets import SequenceSampler, Source
from wmtk.errors import UsageError
from wmtk.runs.training_config import TrainingConfig
from wmtk.training import precision
from wmtk.training.model_stage import train_model
from wmtk.training.model_trainer import ModelTrainer

UPDATES = 6


def losses(dataset, config) -> list[dict[str, float]]:
    """What some updates report, from the same weights, batches and random numbers."""
    torch.manual_seed(0)
    trainer = ModelTrainer(config, dataset.schema, torch.device("cpu"))
    sampler = SequenceSampler(dataset, batch_size=4, length=6)
    return [
        trainer.summarize([trainer.update(trainer.inputs(sampler.sample()), step).metrics])
        for step in range(UPDATES)
    ]


def require_near(found, plain, names: tuple[str, ...], rel: float) -> None:
    for one, other in zip(found, plain, strict=True):
        assert one.keys() == other.keys()
        for name in names:
            assert one[name] == pytest.approx(other[name], rel=rel, abs=rel / 10), name


# A categorical draw that falls near an edge may come out differently, which shows in the KL.
TERMS = {
    "categorical": ("loss/constant_free", "mse/image", "mse/reward"),
    "gaussian": ("loss/constant_free", "mse/image", "mse/reward", "kl", "entropy/prior"),
}


@pytest.mark.parametrize("latent", TERMS)
@pytest.mark.parametrize(("bits", "rel"), [("bfloat16", 0.02), ("float16", 0.005)])
def test_fewer_bits_give_nearly_the_same_losses(dataset, config, latent, bits, rel) -> None:
    full = config.override({"model.rssm.latent": latent})
    plain, found = losses(dataset, full), losses(dataset, full.override({"precision": bits}))
    require_near(found, plain, TERMS[latent], rel)
    assert found[0] != plain[0]  # they were fewer indeed
    assert found[-1]["loss/total"] < found[0]["loss/total"]


def test_states_and_losses_stay_in_float32(dataset, config) -> None:
    lower = config.override({"precision": "bfloat16"})
    trainer = ModelTrainer(lower, dataset.schema, torch.device("cpu"))
    inputs = trainer.inputs(SequenceSampler(dataset, batch_size=2, length=6).sample())
    loss, post, _ = trainer.model.loss(inputs)
    tensors = [loss, *post, trainer.model.encode(inputs.obs), trainer.model.reward(post.feat)]
    tensors += trainer.model.decode(post.feat).values()
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.float32}


LARGE = {"model.cnn_depth": 24}


@pytest.mark.parametrize(
    ("changes", "device", "able", "expected"),
    [
        ({}, "cpu", True, "float32"),  # a small model
        (LARGE, "cpu", True, "bfloat16"),
        (LARGE, "cpu", False, "float32"),
        (LARGE, "cuda", True, "float32"),
        (LARGE | {"precision": "float32"}, "cpu", True, "float32"),
        ({"precision": "bfloat16"}, "cpu", False, "bfloat16"),
    ],
)
def test_what_is_faster_is_chosen(config, monkeypatch, changes, device, able, expected) -> None:
    monkeypatch.setattr(precision, "fast_bfloat16", lambda: able)
    assert precision.resolve_precision(config.override(changes), device).precision == expected


def test_what_was_chosen_stays(dataset, config, tmp_path, monkeypatch) -> None:
    """The run goes on as it began, on a machine that would choose otherwise."""
    large = config.override(LARGE)
    monkeypatch.setattr(precision, "fast_bfloat16", lambda: True)
    run = train_model([Source(dataset)], tmp_path / "run", large, updates=1)
    assert run.config()["precision"] == "bfloat16"
    monkeypatch.setattr(precision, "fast_bfloat16", lambda: False)
    again = TrainingConfig.build(run.config())
    run = train_model([Source(dataset)], tmp_path / "run", again, updates=2, resume=True)
    assert run.config()["precision"] == "bfloat16"


def test_float16_resumes_bit_for_bit(dataset, config, tmp_path) -> None:
    """The scale of the loss is part of what is saved."""
    lower = config.override({"precision": "float16"})
    whole = train_model([Source(dataset)], tmp_path / "whole", lower, updates=5).checkpoints.load()
    train_model([Source(dataset)], tmp_path / "run", lower, updates=2)
    run = train_model([Source(dataset)], tmp_path / "run", lower, updates=5, resume=True)
    assert "scaler/model" in whole.tensors
    assert run.checkpoints.load().hash == whole.hash


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch.compile has several of its own
def test_compiled_code_gives_the_same_losses(dataset, config, monkeypatch) -> None:
    """By a backend that needs no C++ compiler; what is traced is the same with all of them."""
    monkeypatch.setattr(precision, "BACKEND", "aot_eager")
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    found = losses(dataset, config.override({"compile": True}))
    assert counters["stats"]["unique_graphs"] >= 3  # encoder, decoder, heads
    require_near(found, losses(dataset, config), TERMS["gaussian"], 1e-4)


def test_without_a_compiler_it_says_so(dataset, config, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="needs a C\\+\\+ compiler"):
        train_model(
            [Source(dataset)], tmp_path / "run", config.override({"compile": True}), updates=1
        )
    assert not (tmp_path / "run").exists()
