"""Rewards that are squashed before they are learned: the paper's tanh, for Atari."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from wmtk.models.world_model import Inputs, WorldModel, WorldModelConfig
from wmtk.spaces import ArraySpec
from wmtk.training.presets import training_config

CONFIG = WorldModelConfig.build(
    {"layers": 1, "units": 8, "rssm": {"deter": 6, "hidden": 6, "stoch": 2, "classes": 3}}
)


def make_model(transform: str | None) -> WorldModel:
    torch.manual_seed(0)
    config = CONFIG.override({"reward_transform": transform})
    return WorldModel(config, {"state": ArraySpec("box", (3,), "float32")}, 2)


def make_inputs(reward: torch.Tensor) -> Inputs:
    B, T = reward.shape
    generator = torch.Generator().manual_seed(1)
    obs = {"state": torch.randn(B, T, 3, generator=generator)}
    first = (torch.arange(T) == 0).expand(B, T)
    no, yes = torch.zeros(B, T, dtype=torch.bool), torch.ones(B, T, dtype=torch.bool)
    return Inputs(obs, torch.zeros(B, T, 2), reward, no, first, yes)


def test_it_is_what_the_head_is_taught() -> None:
    reward = torch.tensor([[0.0, 1.0, -400.0], [0.5, 25.0, 0.0]])
    inputs = make_inputs(reward)
    found = []
    for transform, taught in (("tanh", inputs), (None, inputs._replace(reward=reward.tanh()))):
        torch.manual_seed(2)
        found.append(make_model(transform).loss(taught)[2]["loss/reward"].item())
    assert found[0] == pytest.approx(found[1])
    torch.manual_seed(2)
    assert make_model(None).loss(inputs)[2]["loss/reward"].item() > 100 * found[0]
    np.testing.assert_array_equal(inputs.reward, reward)  # what is stored stays as it is


def test_it_is_the_papers_for_atari_and_nobody_elses() -> None:
    found = {
        name: training_config(name).model.reward_transform
        for name in ("atari", "montezuma", "dmc_vision", "humanoid", "tiny")
    }
    assert found == {
        "atari": "tanh",
        "montezuma": "tanh",
        "dmc_vision": None,
        "humanoid": None,
        "tiny": None,
    }
