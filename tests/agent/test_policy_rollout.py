"""A policy's dreams from a run directory, as arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import wmtk
from wmtk.agent.batch_tensors import whole_episode
from wmtk.agent.load import LoadedAgent
from wmtk.agent.predictions import window
from wmtk.datasets import Dataset, Source
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

from .conftest import SETTINGS


@pytest.fixture(scope="module")
def agent(catch: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedAgent, Dataset]:
    folder, data = tmp_path_factory.mktemp("dreams"), Dataset.open(catch)
    config = training_config("tiny", overrides=SETTINGS)
    train_model([Source(data)], folder / "model", config, updates=1)
    train_policy(folder / "model", folder / "policy", updates=1, episodes=0)
    found = wmtk.load(folder / "policy")
    assert isinstance(found, LoadedAgent)
    return found, data


def test_a_dream_follows_the_actor(agent) -> None:
    model, data = agent
    batch = whole_episode(data[0])
    found = model.rollout_policy(batch, context=3, horizon=4, samples=2, seed=5)
    assert found.obs["image"].shape == (1, 2, 4, 64, 64, 1)
    assert found.obs["image"].dtype == np.uint8
    assert found.action.shape == (1, 2, 4, *data.schema.action.shape)
    assert found.action.dtype == data.schema.action.dtype
    for part in (found.reward, found.discount, found.value):
        assert part.shape == (1, 2, 4)
    # The same states once more, from the actions that were taken.
    torch.manual_seed(5)
    inputs = model.batch_inputs(batch)
    seen = model.model.observe(window(inputs, slice(0, 3)))
    first = model.actor_critic.act(seen.feat[:, -1], sample=False)
    np.testing.assert_array_equal(model.actions.decode(first)[0], found.action[0, 0, 0])


def test_seeds_of_dreams(agent) -> None:
    model, data = agent
    batch = whole_episode(data[0])
    options = {"context": 3, "horizon": 6, "sample": True}
    first, again, other = (model.rollout_policy(batch, **options, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.reward, again.reward)
    assert (first.reward != other.reward).any()
    before = torch.random.get_rng_state()
    model.rollout_policy(batch, **options)
    assert torch.equal(before, torch.random.get_rng_state())


def test_states_are_judged_as_arrays(agent) -> None:
    model, data = agent
    seen = model.observe_batch(whole_episode(data[0]))
    found = model.value_of(seen.deter, seen.stoch)
    assert found.shape == seen.reward.shape
    feat = torch.from_numpy(np.concatenate([seen.deter, seen.stoch], -1))
    with torch.no_grad():
        expected = model.actor_critic.critic(feat).squeeze(-1).numpy()
    np.testing.assert_allclose(found, expected)
