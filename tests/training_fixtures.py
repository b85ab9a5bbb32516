"""Small datasets and settings that train in moments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmtk.collecting import RandomPolicy, collect_episodes, dataset_for
from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.envs import resolve
from wmtk.runs.training_config import TrainingConfig
from wmtk.spaces import ArraySpec
from wmtk.training.presets import training_config

IMAGE = ArraySpec("box", (64, 64, 1), "uint8", 0, 255)
VECTOR = ArraySpec("box", (3,), "float64")
SETTINGS = {
    "model.cnn_depth": 2,
    "model.layers": 1,
    "model.units": 8,
    "model.rssm.deter": 8,
    "model.rssm.hidden": 8,
    "model.rssm.stoch": 2,
    "model.rssm.classes": 4,
    "data.batch_size": 2,
    "data.length": 6,
    "logging.log_every": 2,
    "logging.evaluate_every": 3,
    "logging.checkpoint_every": 4,
    "logging.held_out_batches": 1,
}


@pytest.fixture(scope="session")
def catch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve episodes of Catch."""
    path = tmp_path_factory.mktemp("data") / "catch.zarr"
    task = resolve("wmtk/Catch-v0")
    with dataset_for(task, path) as dataset:
        collect_episodes(
            task, dataset, RandomPolicy(dataset.schema.action, [0]), seed=0, episodes=12
        )
    return path


@pytest.fixture
def dataset(catch: Path) -> Dataset:
    return Dataset.open(catch)


@pytest.fixture
def config() -> TrainingConfig:
    return training_config("tiny", overrides=SETTINGS)


@pytest.fixture
def small() -> list[str]:
    """The same settings as options of the command."""
    return [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]


def _noise(rng: np.random.Generator, spec: ArraySpec, rows: int) -> Any:
    if spec.kind == "box" and spec.dtype.startswith("float"):
        noise = rng.normal(size=(rows, *spec.shape)).astype(spec.dtype)
        return noise.clip(spec.bound("low"), spec.bound("high"))
    return rng.integers(0, spec.bound("high"), (rows, *spec.shape), endpoint=True).astype(
        spec.dtype
    )


@pytest.fixture
def make_dataset(tmp_path: Path) -> Callable[..., Dataset]:
    """A dataset of noise with the given spaces; `change` may alter an episode's arrays."""

    def make(
        name: str = "noise.zarr",
        obs: dict[str, ArraySpec] | None = None,
        actions: int | ArraySpec = 3,
        lengths: tuple[int, ...] = (12, 12, 12, 12),
        change: Callable[[int, dict[str, Any]], None] = lambda number, arrays: None,
    ) -> Dataset:
        if isinstance(actions, int):
            actions = ArraySpec("discrete", (), "int64", 0, actions - 1)
        schema = Schema(obs or {"state": VECTOR}, actions)
        rng = np.random.default_rng(0)
        with Dataset.create(tmp_path / name, schema) as dataset:
            for number, length in enumerate(lengths):
                rows = {path: _noise(rng, spec, length + 1) for path, spec in schema.arrays()}
                rows["action"][0] = rows["reward"][0] = 0
                rows["terminated"] = np.arange(length + 1) == length
                rows["truncated"] = np.zeros(length + 1, bool)
                change(number, rows)
                dataset.append(Episode.from_arrays(rows, None, Provenance()))
        return Dataset.open(tmp_path / name)

    return make
