"""A small dataset and settings that train in moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmtk.collect import RandomPolicy, collect, dataset_for
from wmtk.datasets import Dataset
from wmtk.envs import resolve
from wmtk.training.presets import TrainingConfig, training_config


@pytest.fixture(scope="session")
def catch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve episodes of Catch."""
    path = tmp_path_factory.mktemp("data") / "catch.zarr"
    task = resolve("wmtk/Catch-v0")
    with dataset_for(task, path) as dataset:
        collect(task, dataset, RandomPolicy(dataset.schema.action, [0]), seed=0, episodes=12)
    return path


@pytest.fixture
def dataset(catch: Path) -> Dataset:
    return Dataset.open(catch)


@pytest.fixture
def config() -> TrainingConfig:
    return training_config(
        "tiny",
        overrides={
            "model.depth": 2,
            "model.units": 8,
            "model.rssm.deter": 8,
            "model.rssm.hidden": 8,
            "model.rssm.stoch": 2,
            "model.rssm.classes": 4,
            "data.batch_size": 2,
            "data.length": 6,
            "cadence.log": 2,
            "cadence.evaluate": 3,
            "cadence.checkpoint": 4,
            "cadence.held_out_batches": 1,
        },
    )
