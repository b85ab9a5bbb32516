"""A lack of memory is explained: what was asked for, how much it needs, what to set."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys

import pytest
import torch

from wmtk.datasets import Source
from wmtk.errors import MemoryExhaustedError, StorageFullError
from wmtk.models.world_model import WorldModel
from wmtk.training.health import estimate_memory
from wmtk.training.model_stage import train_model
from wmtk.training.model_trainer import ModelTrainer

ON_A_CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 9663676416 bytes. Error code 12 (Cannot allocate memory)"
)
LACKS = {
    "cpu": ON_A_CPU,
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "mps": RuntimeError("MPS backend out of memory (MPS allocated: 8.91 GB)"),
    "numpy": MemoryError("Unable to allocate 9.31 GiB for an array"),
    "convolution": RuntimeError("could not create a primitive descriptor for a convolution"),
    "product": RuntimeError("could not execute a primitive"),
    "system": OSError(errno.ENOMEM, "Cannot allocate memory"),
}


@pytest.mark.parametrize("lack", LACKS)
def test_a_lack_of_memory_says_what_to_set(dataset, config, tmp_path, monkeypatch, lack) -> None:
    loss = WorldModel.loss

    def greedy(model, inputs, step=0):
        if len(inputs.reward) > 1:
            raise LACKS[lack]
        return loss(model, inputs, step)

    monkeypatch.setattr(WorldModel, "loss", greedy)
    large = config.override({"data.batch_size": 8})
    with pytest.raises(MemoryExhaustedError, match=r"8 × 6 exceed .* about \d+ MB") as e:
        train_model([Source(dataset)], tmp_path / "run", large, updates=2)
    assert "data.batch_size=4 (about " in e.value.hint
    assert "data.length=3" in e.value.hint
    assert not (tmp_path / "run").exists()


def test_a_lack_that_leaves_no_room_to_measure(dataset, config, tmp_path, monkeypatch) -> None:
    def greedy(model, inputs, step=0):
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(WorldModel, "loss", greedy)
    with pytest.raises(MemoryExhaustedError, match=r"exceed the available memory\.") as e:
        train_model([Source(dataset)], tmp_path / "run", config, updates=2)
    assert "data.length=3, or" in e.value.hint


OTHERS = (
    (RuntimeError("mat1 and mat2"), RuntimeError),
    (OSError(errno.ENOSPC, "mat1 and mat2"), StorageFullError),
)


@pytest.mark.parametrize(("other", "told"), OTHERS, ids=["shapes", "disk"])
def test_other_errors_are_no_lack_of_memory(
    dataset, config, tmp_path, monkeypatch, other, told
) -> None:
    def broken(model, inputs, step=0):
        raise other

    monkeypatch.setattr(WorldModel, "loss", broken)
    with pytest.raises(told, match="mat1 and mat2"):
        train_model([Source(dataset)], tmp_path / "run", config, updates=2)


def test_the_estimate_grows_with_the_batch_beyond_the_weights(dataset, config) -> None:
    trainer = ModelTrainer(config, dataset.schema, torch.device("cpu"))
    state = torch.get_rng_state()
    some, more, most = (estimate_memory(trainer.model, rows) for rows in (100, 200, 300))
    assert torch.equal(torch.get_rng_state(), state)
    weights = sum(4 * weight.numel() for weight in trainer.model.parameters())
    assert some > 4 * weights
    assert most - more == pytest.approx(more - some, rel=1e-6)
    # What the first convolution makes of a frame, in single precision, at the very least.
    assert more - some > 100 * 2 * 31 * 31 * 4


LIMITED = """
import resource, sys
from wmtk.cli.main import main
import torch.utils.tensorboard
import wmtk.training.model_stage
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
main()
"""
# The limit is on addresses, of which every thread of a large machine takes many for itself.
ALONE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")} | {
    "MALLOC_ARENA_MAX": "1"
}


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits by address space")
def test_a_real_lack_of_memory(catch, tmp_path) -> None:
    assert resource.RLIMIT_AS
    # What the first convolution takes and gives is 1.2 GB: it has no room, on any machine.
    options = ["--set", "data.batch_size=256", "--set", "data.length=96", "--val-fraction", "0"]
    command = [sys.executable, "-c", LIMITED, "train-model", str(catch), *options]
    command += ["--out", str(tmp_path / "run"), "--device", "cpu", "--updates", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | ALONE)
    assert done.returncode == 1, done.stderr
    assert "error: Batches of 256 × 96 exceed the available memory" in done.stderr
    assert "--set data.batch_size=128" in done.stderr
    assert not (tmp_path / "run").exists()
