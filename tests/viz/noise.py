"""A run that has hardly learned anything, quickly made: of noise, for the commands to look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wmtk.datasets import Dataset, Episode, Provenance, Schema, Source
from wmtk.spaces import ArraySpec

IMAGE = ArraySpec("box", (64, 64, 1), "uint8", 0, 255)
VECTOR = ArraySpec("box", (3,), "float64")
OBS = {
    "image": {"image": IMAGE},
    "vector": {"state": VECTOR},
    "mixed": {"image": IMAGE, "state": VECTOR},
}
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
    "logging.checkpoint_every": 1,
}


def make_run(folder: Path, obs: dict[str, ArraySpec]) -> tuple[Path, Path]:
    """Twenty episodes of noise with a factor, and a model that has hardly seen them."""
    schema = Schema(
        obs,
        ArraySpec("discrete", (), "int64", 0, 2),
        info={"height": ArraySpec("box", (), "float32")},
    )
    rng = np.random.default_rng(0)
    data = folder / "noise.zarr"
    with Dataset.create(data, schema) as dataset:
        for number in range(20):
            rows = 13
            arrays = {}
            for path, spec in schema.arrays():
                shape = (rows, *spec.shape)
                if np.dtype(spec.dtype).kind == "f":
                    arrays[path] = rng.normal(size=shape).astype(spec.dtype)
                else:
                    high = 255 if path.startswith("obs") else 2
                    arrays[path] = rng.integers(0, high, shape, endpoint=True).astype(spec.dtype)
            arrays["action"][0] = arrays["reward"][0] = 0
            arrays["terminated"] = (np.arange(rows) == rows - 1) & (number % 2 == 0)
            arrays["truncated"] = (np.arange(rows) == rows - 1) & (number % 2 == 1)
            dataset.append(Episode.from_arrays(arrays, None, Provenance()))
    from wmtk.training.model_stage import train_model
    from wmtk.training.presets import training_config

    config = training_config("tiny", overrides=SETTINGS)
    source = Source(Dataset.open(data))
    train_model([source], folder / "run", config, updates=2, val_fraction=0.5)
    return folder / "run", data
