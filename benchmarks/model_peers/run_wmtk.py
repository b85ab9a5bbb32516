"""Ours: `ModelTrainer.update` as `wmtk train-model` calls it; with `--stage full` behavior too.

With `--precision` in so many bits, otherwise in those that are the default on this machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from serve import Arrays, Job, serve, versions

from wmtk.agent import device
from wmtk.datasets import Schema
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs
from wmtk.spaces import ArraySpec
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.precision import resolve_precision
from wmtk.training.presets import training_config

Behavior = Callable[[State, Inputs, int], object]  # posterior states, batch, number of the update


def schema_of(arrays: Arrays) -> Schema:
    image = ArraySpec("box", arrays["image"].shape[2:], "uint8", 0, 255)
    action = ArraySpec("discrete", (), "int64", 0, arrays["action"].shape[-1] - 1)
    return Schema({"image": image}, action)


def inputs_of(arrays: Arrays) -> Inputs:
    """What `ModelTrainer.inputs` makes of a dataset's batch; the actions are one-hot already."""
    is_first = torch.from_numpy(arrays["is_first"])
    return Inputs(
        obs={"image": torch.from_numpy(arrays["image"])},
        action=torch.from_numpy(arrays["action"]),
        reward=torch.from_numpy(arrays["reward"]),
        terminal=torch.from_numpy(arrays["terminal"]),
        is_first=is_first,
        mask=torch.ones_like(is_first),
    )


def model_trainer(arrays: Arrays, preset: str, precision: str = "auto") -> ModelTrainer:
    torch.manual_seed(0)
    config = training_config(preset, overrides={"precision": precision})
    return ModelTrainer(config, schema_of(arrays), torch.device("cpu"))


def prepare(arrays: Arrays, args: argparse.Namespace) -> Job:
    # Once, at the start, as the command does.
    getattr(device, "tune_allocator", lambda: None)()
    torch.set_num_threads(args.threads)
    precision = args.precision or "auto"
    trainer = model_trainer(arrays, args.preset, precision)
    bits = resolve_precision(
        training_config(args.preset, overrides={"precision": precision}), "cpu"
    ).precision
    inputs = inputs_of(arrays)
    learn = behavior(trainer, schema_of(arrays), args.preset) if args.stage == "full" else None
    step = 0

    def run() -> dict[str, float]:
        nonlocal step
        step += 1
        post, metrics = trainer.update(inputs, step)
        loss = {"loss": float(metrics["loss/total"])}
        if learn is None:
            return loss
        reached = time.perf_counter()
        learn(post, inputs, step)
        return loss | {"behavior": time.perf_counter() - reached}

    def about() -> dict[str, Any]:
        parameters = sum(weight.numel() for weight in trainer.model.parameters())
        named = versions("wmtk", "torch")
        return {"parameters": parameters, "versions": named, "precision": bits}

    return Job(run, about)


def behavior(trainer: ModelTrainer, schema: Schema, preset: str) -> Behavior:
    """An update of actor and critic from the posterior states of the model's update."""
    from wmtk.training.policy_trainer import PolicyTrainer

    policy = PolicyTrainer(training_config(preset), schema, trainer.model)
    return lambda post, inputs, step: policy.update(inputs, step, post)


if __name__ == "__main__":
    serve(prepare, "preset", "stage", "precision")
