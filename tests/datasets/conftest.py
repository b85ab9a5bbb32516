"""Small random episodes and datasets of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.spaces import ArraySpec

MakeEpisode = Callable[..., Episode]
MakeDataset = Callable[..., Dataset]


@pytest.fixture
def schema() -> Schema:
    """An image, a nested vector, discrete actions and one stored info."""
    return Schema(
        obs={
            "image": ArraySpec("box", (16, 16, 1), "uint8", 0, 255),
            "robot/pos": ArraySpec("box", (3,), "float32"),
        },
        action=ArraySpec("discrete", (), "int64", 0, 3),
        info={"ball": ArraySpec("box", (2,), "float32")},
    )


@pytest.fixture
def make_episode() -> MakeEpisode:
    def make(steps: int = 10, seed: int = 0, **changes: Any) -> Episode:
        rng = np.random.default_rng(seed)
        rows = steps + 1
        action = rng.integers(0, 4, rows)
        reward = rng.normal(size=rows)
        action[0] = reward[0] = 0
        fields: dict[str, Any] = {
            "obs": {
                "image": rng.integers(0, 256, (rows, 16, 16, 1), np.uint8),
                "robot/pos": rng.normal(size=(rows, 3)).astype(np.float32),
            },
            "action": action,
            "reward": reward,
            "terminated": True,
            "truncated": False,
            "info": {"ball": rng.normal(size=(rows, 2)).astype(np.float32)},
            "seed": seed,
            "provenance": Provenance("test/Env-v0", {"size": 16}, {"test": "1.0"}, "random"),
        }
        return Episode(**(fields | changes))

    return make


@pytest.fixture
def make_dataset(tmp_path: Path, schema: Schema, make_episode: MakeEpisode) -> MakeDataset:
    """A dataset of episodes of the given lengths, one append each or all in one."""

    def make(
        lengths: list[int], name: str = "d.zarr", *, at_once: bool = False, **options: Any
    ) -> Dataset:
        dataset = Dataset.create(tmp_path / name, schema, env={"id": "test/Env-v0"}, **options)
        episodes = [make_episode(steps, seed=number) for number, steps in enumerate(lengths)]
        for batch in [episodes] if at_once else episodes:
            dataset.append(batch)
        return dataset

    return make
