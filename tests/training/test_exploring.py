"""Exploring online: who plays, and what of another run is taken over."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from wmtk.runs.checkpoint import Checkpoint
from wmtk.training.online.agent_trainer import Agent

CPU = torch.device("cpu")


@pytest.fixture
def small(config):
    sizes = {"layers": 1, "units": 8, "horizon": 2, "imagination_starts": 4}
    return config.override({f"behavior.{name}": size for name, size in sizes.items()})


def test_the_explorer_plays_and_the_actor_of_the_task_is_examined(dataset, small) -> None:
    plain = Agent(small, dataset.schema, 0, CPU)
    assert plain.collector([0]).behavior is plain.policy.trainer.behavior
    curious = Agent(small.override({"behavior.explore": "disagreement"}), dataset.schema, 0, CPU)
    trainer = curious.policy.trainer
    assert curious.collector([0]).behavior is trainer.explorer
    assert curious.collector([0]).sample
    assert curious.player(sample=False, seed=[0]).behavior is trainer.behavior


def test_an_ensemble_may_begin_where_another_run_had_none(dataset, small) -> None:
    other = Agent(small, dataset.schema, 0, CPU)
    saved = other.policy.tensors() | other.model.tensors()
    agent = Agent(small.override({"behavior.explore": "disagreement"}), dataset.schema, 5, CPU)
    agent.take_over(Checkpoint(1, saved, {}, "", Path()))
    weight = agent.policy.trainer.behavior.actor.out.weight
    assert torch.equal(weight, saved["behavior/actor.out.weight"])
    weight = agent.model.model.reward_head.out.weight
    assert torch.equal(weight, saved["model/reward_head.out.weight"])
