"""Dreams step by step: they agree with the model, repeat by seed, and can be changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from wmtk.agent.batch_tensors import whole_episode
from wmtk.agent.load import load
from wmtk.agent.outputs import LatentState
from wmtk.agent.stepper import ModelStepper
from wmtk.datasets import Dataset, Source
from wmtk.errors import RunError
from wmtk.training.model_stage import train_model
from wmtk.training.policy_stage import train_policy
from wmtk.training.presets import training_config

SMALL = {
    "model.cnn_depth": 2,
    "model.layers": 1,
    "model.units": 8,
    "model.rssm.deter": 8,
    "model.rssm.hidden": 8,
    "model.rssm.stoch": 2,
    "model.rssm.classes": 4,
    "data.batch_size": 2,
    "data.length": 6,
    "logging.held_out_batches": 1,
}


@pytest.fixture(scope="module", params=["categorical", "binary", "gaussian"])
def dreamer(request, catch: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelStepper:
    run = tmp_path_factory.mktemp("dreams") / request.param
    config = training_config("tiny", overrides={**SMALL, "model.rssm.latent": request.param})
    train_model([Source(Dataset.open(catch))], run, config, updates=1)
    return ModelStepper(load(run))


def three(mind: LatentState) -> LatentState:
    return LatentState(mind.deter.repeat(3, 0), mind.codes.repeat(3, 0))


def test_a_dream_is_what_the_model_imagines(dreamer: ModelStepper, dataset: Dataset) -> None:
    """Step by step at temperature 0, against the model's own rollout of its likeliest states."""
    batch = whole_episode(dataset[0])
    mind = dreamer.observe(batch, [0])
    actions = np.array([0, 2, 1, 1])
    with torch.no_grad():
        encoded = dreamer.loaded.actions.encode(actions[None])
        rssm = dreamer.loaded.model.rssm
        states = rssm.imagine(dreamer._tensors(mind), encoded, sample=False)
    for t, action in enumerate(actions):
        mind = dreamer.step(mind, np.array([action]), seed=[t], temperature=0)
        np.testing.assert_allclose(mind.deter[0], states.deter[0, t].numpy(), atol=1e-5)
    look = dreamer.predict(mind)
    feat = states.feat[:, -1]
    np.testing.assert_allclose(
        look.reward, dreamer.loaded.model.reward(feat).detach().numpy(), atol=1e-5
    )
    assert look.obs["image"].shape == (1, 64, 64, 1)
    assert look.obs["image"].dtype == np.uint8
    assert look.value is None
    assert dreamer.transform_reward(2.0) == 2.0


def test_seeds_decide_and_the_first_future_does_not_mind_the_others(dreamer: ModelStepper) -> None:
    mind = dreamer.initial_state([7])
    action = np.array([1])
    alone = dreamer.step(mind, action, seed=[1, 2])
    again = dreamer.step(mind, action, seed=[1, 2])
    crowd = dreamer.step(three(mind), action.repeat(3), seed=[1, 2])
    np.testing.assert_array_equal(alone.codes, again.codes)
    np.testing.assert_allclose(alone.codes[0], crowd.codes[0], rtol=1e-5)
    others = [dreamer.step(mind, action, seed=[1, n]).codes for n in range(3, 12)]
    assert any(not np.array_equal(alone.codes, other) for other in others)


def test_a_code_that_is_set_is_the_one_that_is_shown(dreamer: ModelStepper) -> None:
    mind = dreamer.initial_state([7])
    changed = mind.codes.copy()
    changed[0, 0] = changed[0, 0] + 1 if dreamer.latent == "gaussian" else 1 - changed[0, 0] % 2
    before, after = (
        dreamer._tensors(LatentState(mind.deter, codes)) for codes in (mind.codes, changed)
    )
    assert not torch.equal(before.stoch, after.stoch)
    assert dreamer.decode(LatentState(mind.deter, changed))["image"].shape == (1, 64, 64, 1)


def test_only_agents_act(dreamer: ModelStepper, tmp_path: Path) -> None:
    mind = dreamer.initial_state([7])
    assert not dreamer.has_actor
    with pytest.raises(RunError, match="no actor"):
        dreamer.act(mind, seed=[0])
    train_policy(dreamer.loaded.run.path, tmp_path / "policy", updates=1, episodes=0)
    agent = ModelStepper(load(tmp_path / "policy"))
    assert agent.has_actor
    actions = agent.act(three(mind), seed=[0])
    assert actions.shape == (3,)
    assert set(actions.tolist()) <= {0, 1, 2}
    value = agent.predict(three(mind)).value
    assert value is not None
    assert value.shape == (3,)
