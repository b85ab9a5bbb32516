"""What a loaded model shows of windows, as arrays."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import wmtk
from wmtk.agent.batch_tensors import whole_episode
from wmtk.datasets import Batch, Source
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model
from wmtk.training.presets import training_config

from .conftest import IMAGE, SETTINGS, VECTOR

MIXED = {"image": IMAGE, "state": VECTOR, "lamp": ArraySpec("box", (), "float32")}


@pytest.fixture(params=["categorical", "binary", "gaussian"])
def latent(request) -> str:
    return request.param


@pytest.fixture
def data(make_dataset):
    return make_dataset(obs=MIXED)


@pytest.fixture
def model(data, latent, tmp_path):
    config = training_config("tiny", overrides={**SETTINGS, "model.rssm.latent": latent})
    train_model([Source(data)], tmp_path / "run", config, updates=2)
    return wmtk.load(tmp_path / "run")


def test_windows_that_are_seen(model, data, latent) -> None:
    batch = whole_episode(data[0])
    seen = model.observe_batch(batch)
    rows = batch.reward.shape[1]
    assert {key: part.shape for key, part in seen.obs.items()} == {
        "image": (1, rows, 64, 64, 1),
        "state": (1, rows, 3),
        "lamp": (1, rows),
    }
    assert seen.obs["image"].dtype == np.uint8
    assert seen.deter.shape == (1, rows, 8)
    assert seen.latent == latent
    sizes = {"categorical": (2, 4), "binary": (8, 2), "gaussian": (2, 2)}[latent]
    assert seen.posterior.shape == seen.prior.shape == (1, rows, *sizes)
    if latent == "gaussian":
        assert (seen.posterior[..., 1] > 0.1).all()
    else:
        np.testing.assert_allclose(seen.posterior.sum(-1), 1, rtol=1e-5)


def test_windows_that_are_imagined(model, data) -> None:
    batch = whole_episode(data[0])
    found = model.predict_batch(batch, context=3, horizon=5, samples=2, seed=1)
    assert found.obs["image"].shape == (1, 2, 5, 64, 64, 1)
    assert found.obs["state"].shape == (1, 2, 5, 3)
    assert found.reward.shape == found.discount.shape == (1, 2, 5)
    again = model.predict_batch(batch, context=3, horizon=5, samples=2, seed=1)
    np.testing.assert_array_equal(found.obs["state"], again.obs["state"])
    other = model.predict_batch(batch, context=3, horizon=5, samples=2, seed=2)
    assert (found.obs["state"] != other.obs["state"]).any()


def test_windows_and_samples_are_not_mixed_up(model, data, monkeypatch) -> None:
    """If nothing is drawn, the futures of a window are equal, and windows differ."""
    latent = model.model.rssm.latent
    monkeypatch.setattr(latent, "sample", latent.mode)
    one, two = (whole_episode(data[number]) for number in (0, 1))
    both = stack_windows([one, two])
    found = model.predict_batch(both, context=3, horizon=5, samples=2)
    np.testing.assert_allclose(found.reward[:, 0], found.reward[:, 1], rtol=1e-5)
    for number, alone in enumerate((one, two)):
        expected = model.predict_batch(alone, context=3, horizon=5).reward
        np.testing.assert_allclose(found.reward[number, :1], expected[0], rtol=1e-4, atol=1e-6)
    assert np.abs(found.reward[0] - found.reward[1]).max() > 1e-4


def stack_windows(batches: list[Batch]) -> Batch:
    def joined(name: str):
        first = getattr(batches[0], name)
        if isinstance(first, dict):
            return {key: np.concatenate([getattr(b, name)[key] for b in batches]) for key in first}
        if isinstance(first, np.ndarray):
            return np.concatenate([getattr(b, name) for b in batches])
        return first

    return Batch(**{field.name: joined(field.name) for field in fields(Batch)})


def test_states_are_shown_as_they_were(model, data) -> None:
    seen = model.observe_batch(whole_episode(data[0]))
    again = model.decode(seen.deter, seen.stoch)
    for key, rows in seen.obs.items():
        np.testing.assert_allclose(again[key], rows, rtol=1e-4, atol=1e-5)


def test_gamma_is_none_without_a_discount_head(model, data, tmp_path) -> None:
    assert model.gamma == 0.95
    config = training_config("tiny", overrides={**SETTINGS, "model.discount_scale": 0})
    train_model([Source(data)], tmp_path / "plain", config, updates=1)
    assert wmtk.load(tmp_path / "plain").gamma is None
