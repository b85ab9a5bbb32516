"""An HDF5 file of no known format: what it holds is listed, and the given lines import it."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from wmtk.datasets import Dataset
from wmtk.datasets.convert import import_dataset
from wmtk.errors import ConversionError


def flat(file, rng):
    file["states"] = rng.normal(size=(12, 3)).astype("float32")
    file["act"] = rng.integers(0, 4, 12)
    file["r"] = rng.normal(size=(12, 1))
    file["done"] = np.arange(12) % 5 == 4
    return [5, 5, 2]


def by_episode(file, rng):
    """As robomimic does."""
    for number, steps in enumerate((4, 6)):
        demo = file.create_group(f"data/demo_{number}")
        demo["obs/camera"] = rng.integers(0, 255, (steps, 8, 8, 3), "uint8")
        demo["obs/joints"] = rng.normal(size=(steps, 2))
        demo["next_obs/joints"] = rng.normal(size=(steps, 2))
        demo["actions"] = rng.normal(size=(steps, 2)).astype("float32")
        demo["dones"] = np.arange(steps) == steps - 1
    return [4, 6]


def without_ends(file, rng):
    file["images"] = rng.integers(0, 255, (7, 8, 8, 1), "uint8")
    file["log/action"] = rng.normal(size=(7, 2))
    return [7]


@pytest.mark.parametrize("fill", [flat, by_episode, without_ends])
@pytest.mark.parametrize("insisted", [None, "d4rl"])
def test_the_lines_in_the_error_import_it(tmp_path, fill, insisted) -> None:
    path = tmp_path / "some.hdf5"
    with h5py.File(path, "w") as file:
        lengths = fill(file, np.random.default_rng(0))
    with pytest.raises(ConversionError) as caught:
        import_dataset(path, tmp_path / "out.zarr", format=insisted)
    with h5py.File(path) as file:
        names = []
        file.visititems(
            lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None
        )
        for name in names:
            assert f"{name!r}: {file[name].shape}, {file[name].dtype}" in caught.value.message
    assert "needs observations, actions, rewards, terminals" in caught.value.message
    _, _, lines = caught.value.hint.partition("\n\n")
    exec(lines, {})
    with Dataset.open(tmp_path / "some.zarr") as dataset:
        assert [episode.length for episode in dataset] == lengths
        ended = [episode.terminated for episode in dataset]
        assert ended[0] is (fill is not without_ends)
        assert all(np.isfinite(episode.total_reward) for episode in dataset)


def test_a_file_of_other_things_is_listed_too(tmp_path) -> None:
    path = tmp_path / "weather.h5"
    with h5py.File(path, "w") as file:
        for number in range(40):
            file[f"station{number:02}"] = np.zeros(3)
        file["self"] = h5py.SoftLink("/")
    with pytest.raises(ConversionError, match="10 more") as caught:
        import_dataset(path, tmp_path / "out.zarr")
    assert "'station00': (3,), float64" in caught.value.message
    assert "minari" in caught.value.hint
