"""`wmtk.load`: a model from its run directory, in a few lines."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import wmtk
from wmtk.datasets import Source
from wmtk.errors import RunError, UsageError
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model

IMAGE = ArraySpec("box", (64, 64, 1), "uint8", 0, 255)


@pytest.fixture
def model(dataset, config, tmp_path):
    train_model([Source(dataset)], tmp_path / "run", config, updates=3)
    return wmtk.load(tmp_path / "run")


def test_a_loaded_model_sees_reconstructs_and_predicts(model, dataset) -> None:
    episode = dataset[0]
    rows = episode.length + 1
    assert model.encode(episode).shape[0] == rows
    assert model.observe(episode).deter.shape == (1, rows, 8)
    assert model.reconstruct(episode)["image"].shape == episode.obs["image"].shape
    prediction = model.predict(episode, context=5, horizon=10, samples=3)
    assert prediction.obs["image"].shape == (3, 10, 64, 64, 1)
    assert prediction.reward.shape == prediction.discount.shape == (3, 10)
    assert (prediction.discount < 1).all()
    with pytest.raises(UsageError, match="do not fit"):
        model.predict(episode, context=5, horizon=1000)


def test_vectors_are_reconstructed_and_predicted_too(make_dataset, config, tmp_path) -> None:
    spec = ArraySpec("box", (2, 3), "float32")
    data = make_dataset(obs={"image": IMAGE, "arm": spec})
    train_model([Source(data)], tmp_path / "run", config, updates=2)
    model, episode = wmtk.load(tmp_path / "run"), data[0]
    again = model.reconstruct(episode)
    assert {key: x.shape for key, x in again.items()} == {
        "image": (13, 64, 64, 1),
        "arm": (13, 2, 3),
    }
    future = model.predict(episode, context=3, horizon=4, samples=2)
    assert future.obs["arm"].shape == (2, 4, 2, 3)
    assert np.isfinite(future.obs["arm"]).all()


def test_imagining_goes_on_from_a_state(model, dataset) -> None:
    episode = dataset[0]
    seen = model.observe(episode)
    torch.manual_seed(0)
    states = model.imagine(seen.at(4), episode.action[None, 5:15])
    assert states.deter.shape == (1, 10, 8)
    # The first of them by hand: the deterministic state knows nothing of chance.
    action = model.actions.encode(episode.action[None, 5:6])[:, 0]
    rssm, start = model.model.rssm, seen.at(4)
    deter = rssm.advance(start.deter, start.stoch, rssm.from_action(action))
    np.testing.assert_allclose(states.deter[:, 0].numpy(), deter.detach().numpy(), atol=1e-5)
    for state, actions in [
        (seen, episode.action[None, 5:15]),
        (seen.at(4), episode.action[5:15]),
        (seen.at(4), np.stack([episode.action[5:15]] * 2)),
    ]:
        with pytest.raises(UsageError, match="do not go together"):
            model.imagine(state, actions)


def test_the_model_that_acts_has_the_states_of_training(model, dataset) -> None:
    """One row at a time with the raw observation, against the whole episode at once."""
    episode = dataset[1]
    inputs = model.episode_inputs(episode)
    torch.manual_seed(3)
    whole = model.observe(episode)
    torch.manual_seed(3)
    state = model.model.rssm.initial(1)
    for t in range(episode.length + 1):
        obs = {key: rows[:, t : t + 1] for key, rows in inputs.obs.items()}
        embed = model.model.encode(obs)[:, 0]
        state = model.model.rssm.observe_step(
            state, inputs.action[:, t], embed, inputs.is_first[:, t]
        )
        np.testing.assert_allclose(
            state.deter.detach().numpy(), whole.deter[:, t].numpy(), rtol=1e-4, atol=1e-5
        )


def test_what_is_no_run_is_refused(tmp_path) -> None:
    with pytest.raises(RunError, match=r"no run\.json"):
        wmtk.load(tmp_path)


def test_importing_wmtk_does_not_import_torch() -> None:
    code = "import sys, wmtk; assert 'torch' not in sys.modules; wmtk.load; sys.modules['torch']"
    subprocess.run([sys.executable, "-c", code], check=True)
