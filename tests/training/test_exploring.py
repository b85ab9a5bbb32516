"""Exploring online: who plays, and what of another run is taken over."""

from __future__ import annotations

import pytest
import torch

from wmtk.training.online.agent_trainer import AgentTrainer

CPU = torch.device("cpu")


@pytest.fixture
def small(config):
    sizes = {"layers": 1, "units": 8, "horizon": 2, "imagination_starts": 4}
    return config.override({f"behavior.{name}": size for name, size in sizes.items()})


def test_the_explorer_plays_and_the_actor_of_the_task_is_examined(dataset, small) -> None:
    plain = AgentTrainer(small, dataset.schema, 0, CPU)
    assert plain.collection_policy([0]).actor_critic is plain.policy.actor_critic
    curious = AgentTrainer(
        small.override({"behavior.explore": "disagreement"}), dataset.schema, 0, CPU
    )
    trainer = curious.policy
    assert curious.collection_policy([0]).actor_critic is trainer.explorer
    assert curious.collection_policy([0]).sample
    assert curious.task_policy([0]).actor_critic is trainer.actor_critic


def test_an_ensemble_may_begin_where_another_run_had_none(dataset, small) -> None:
    other = AgentTrainer(small, dataset.schema, 0, CPU)
    saved = other.policy.state_dict() | other.model.state_dict()
    agent = AgentTrainer(
        small.override({"behavior.explore": "disagreement"}), dataset.schema, 5, CPU
    )
    agent.load_pretrained(saved)
    weight = agent.policy.actor_critic.actor.out.weight
    assert torch.equal(weight, saved["behavior/actor.out.weight"])
    weight = agent.model.model.reward_head.out.weight
    assert torch.equal(weight, saved["model/reward_head.out.weight"])
