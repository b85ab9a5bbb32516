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


def imported(path, fill, **names):
    """The dataset that the lines in the error make; `names` replace what they leave open."""
    with h5py.File(path, "w") as file:
        fill(file)
    with pytest.raises(ConversionError) as caught:
        import_dataset(path, path.with_suffix(".out"))
    advice, _, lines = caught.value.hint.partition("\n\n")
    for name, array in names.items():
        assert repr(name) in advice
        lines = lines.replace(f"group[{name!r}]", f"group[{array!r}]")
    exec(lines, {})
    return Dataset.open(path.with_suffix(".zarr"))


def test_a_last_observation_that_is_there_is_imported(tmp_path) -> None:
    seen = np.arange(18, dtype="float32").reshape(6, 3)

    def fill(file):
        for number in range(2):
            file[f"traj_{number}/obs"] = seen + number
            file[f"traj_{number}/actions"] = np.zeros((5, 2), "float32")

    for number, episode in enumerate(imported(tmp_path / "a.hdf5", fill)):
        np.testing.assert_array_equal(episode.obs["obs"], seen + number)


@pytest.mark.parametrize("cut", ["timeouts", "truncated", "time_out"])
@pytest.mark.parametrize("end", ["dones", "terminated", None])
def test_a_time_limit_does_not_become_an_end(tmp_path, cut, end) -> None:
    def fill(file):
        file["obs"] = np.zeros((9, 3), "float32")
        file["act"] = np.zeros((9, 2), "float32")
        file[cut] = np.arange(9) == 3
        if end is not None:
            file[end] = np.arange(9) == 6

    found = list(imported(tmp_path / "a.hdf5", fill))
    whole = [(4, False, True), (3, True, False), (2, False, False)]
    expected = whole if end is not None else [whole[0], (5, False, False)]
    assert [(e.length, e.terminated, e.truncated) for e in found] == expected


def test_names_that_say_nothing_are_left_to_the_user(tmp_path) -> None:
    def fill(file):
        file["o"] = np.ones((6, 3), "float32")
        file["a"] = np.ones((6, 2), "float32")
        file["r"] = np.ones(6)

    (episode,) = imported(tmp_path / "a.hdf5", fill, observations="o", actions="a")
    assert episode.total_reward == 6
    np.testing.assert_array_equal(episode.obs["observations"], np.ones((7, 3)))


def test_a_file_of_other_things_is_listed_too(tmp_path) -> None:
    path = tmp_path / "weather.h5"
    with h5py.File(path, "w") as file:
        for number in range(40):
            file[f"station{number:02}"] = np.zeros(3)
        file["self"] = h5py.SoftLink("/")
    with pytest.raises(ConversionError, match="10 more") as caught:
        import_dataset(path, tmp_path / "out.zarr")
    assert "'station00': (3,), float64" in caught.value.message
    assert "minari" in str(caught.value)
    assert "in place of 'observations' and 'actions'" in caught.value.hint
