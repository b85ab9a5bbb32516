"""A subclass of WorldModel is trained, loaded and refused by its name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import wmtk
from wmtk.errors import RunError
from wmtk.models import kernels as switch
from wmtk.models.distributions import Gaussian, Latent
from wmtk.models.losses import gaussian_nll
from wmtk.models.world_model import WorldModel


class Halved(WorldModel):
    """Another latent, and a reward head that predicts half of the reward."""

    def make_latent(self) -> Latent:
        return Gaussian(3)

    def reward(self, feat: Tensor) -> Tensor:
        return 2 * self.reward_head(feat).squeeze(-1)

    def reward_nll(self, feat: Tensor, reward: Tensor) -> Tensor:
        return gaussian_nll(self.reward_head(feat).squeeze(-1), reward / 2, 0)


class Other(WorldModel):
    pass


@pytest.fixture
def run(dataset, config, tmp_path):
    return wmtk.train_model(
        dataset, tmp_path / "model", config, updates=2, world_model=Halved, device="cpu"
    )


def test_a_run_is_trained_resumed_and_loaded_with_its_class(run, dataset, config) -> None:
    again = wmtk.train_model(
        dataset, run.path, config, updates=3, world_model=Halved, device="cpu", resume=True
    )
    assert again.step == 3
    model = wmtk.load(run.path, world_model=Halved)
    assert type(model.model) is Halved
    state = model.observe(dataset[0])
    assert state.stoch.shape[-1] == 3
    with torch.no_grad():
        head = model.model.reward_head(state.feat).squeeze(-1)
    predicted = model.model.reward(state.feat).detach().numpy()
    np.testing.assert_allclose(predicted, 2 * head.numpy(), rtol=1e-6)


def test_a_policy_is_trained_in_the_model_and_loaded_with_its_class(run, tmp_path) -> None:
    policy = wmtk.train_policy(
        run.path, tmp_path / "policy", updates=2, episodes=0, world_model=Halved, device="cpu"
    )
    agent = wmtk.load(policy.path, world_model=Halved)
    assert isinstance(agent, wmtk.LoadedAgent)
    assert type(agent.model) is Halved
    with pytest.raises(RunError, match=r"trained with the class .*:Halved, not with .*:WorldModel"):
        wmtk.load(policy.path)


def test_without_its_class_or_with_another_one_a_run_is_refused(
    run, dataset, config, tmp_path
) -> None:
    with pytest.raises(RunError, match="Halved") as caught:
        wmtk.load(run.path)
    assert caught.value.hint == "In Python, pass world_model=Halved."
    with pytest.raises(RunError, match=r":Halved, not with .*:Other"):
        wmtk.load(run.path, world_model=Other)
    with pytest.raises(RunError, match="Halved"):
        wmtk.train_policy(run.path, tmp_path / "policy", updates=1)
    with pytest.raises(RunError, match="Halved"):
        wmtk.train_model(dataset, run.path, config, updates=4, resume=True)
    assert not (tmp_path / "policy").exists()


def test_a_standard_run_is_refused_with_a_subclass(dataset, config, tmp_path) -> None:
    run = wmtk.train_model(dataset, tmp_path / "model", config, updates=1, device="cpu")
    assert "world_model" not in run.about
    with pytest.raises(RunError, match=r":WorldModel, not with .*:Other") as caught:
        wmtk.load(run.path, world_model=Other)
    assert caught.value.hint == "Leave world_model out."


@pytest.mark.parametrize("kernels", ["plain", "fast"])
def test_the_setting_kernels_is_in_effect_while_training(
    dataset, config, tmp_path, kernels
) -> None:
    selected = set()
    with switch.using("auto"):
        wmtk.train_model(
            dataset,
            tmp_path / "model",
            config.override({"kernels": kernels}),
            updates=1,
            device="cpu",
            on_progress=lambda _: selected.add(switch.selected()),
        )
    assert selected == {kernels}
