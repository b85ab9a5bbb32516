"""The environment of imported data: known ids become tasks, and nothing of a file is run."""

from __future__ import annotations

import sys

import h5py
import numpy as np
import pytest

from wmtk.datasets import Dataset, Schema
from wmtk.datasets.convert import import_dataset
from wmtk.datasets.convert.origin import environment_of
from wmtk.envs import resolve, task_of
from wmtk.errors import UsageError
from wmtk.spaces import ArraySpec

VECTOR = Schema(
    {"state": ArraySpec("box", (4,), "float32")}, ArraySpec("discrete", (), "int64", 0, 1)
)
IMAGE = Schema({"image": ArraySpec("box", (96, 96, 3), "uint8", 0, 255)}, VECTOR.action)


def test_a_known_id_is_described_as_when_it_is_collected() -> None:
    env = environment_of("CartPole-v1", {"render_mode": "human"}, VECTOR, 500)
    assert task_of(env) == resolve("CartPole-v1")
    assert task_of(environment_of("CartPole-v1", {}, VECTOR, 50)).kwargs["time_limit"] == 50
    easy = environment_of("FrozenLake-v1", {"is_slippery": False}, VECTOR, 100)
    assert task_of(easy).kwargs["kwargs"] == {"is_slippery": False}
    # Pictures are those of the environment, not resized as `wmtk collect` does.
    assert task_of(environment_of("CarRacing-v3", {}, IMAGE, 1000)).kwargs["size"] == 0


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("AdroitHandDoor-v99", {}),
        ("subprocess:Popen", {"args": "true", "shell": True}),
        ("stranger:Env-v0", {}),
        ("ALE/Pong-v5", {}),  # wmtk plays it by other rules
        ("wmtk/../Catch-v0", {}),
        ("CartPole-v1", {"sutton_barto_reward": "/etc/passwd"}),
        ("", {}),
    ],
)
def test_other_ids_are_kept_and_not_run(env_id, kwargs, tmp_path, monkeypatch) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    env = environment_of(env_id, kwargs, VECTOR, None)
    assert env == {"id": env_id, "kwargs": kwargs}
    assert "stranger" not in sys.modules
    with pytest.raises(UsageError, match="task='CartPole-v1'" if env_id else "no recorded task"):
        task_of(env)


@pytest.mark.parametrize("where", ["attribute", "metadata"])
def test_an_hdf5_file_may_name_its_environment(tmp_path, where) -> None:
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = np.zeros((6, 3), "float32")
        file["actions"] = np.zeros((6, 1), "float32")
        file["rewards"] = np.zeros(6)
        file["terminals"] = np.arange(6) == 5
        if where == "attribute":
            file.attrs["env_id"] = "Pendulum-v1"
        else:
            file["metadata/env_name"] = "Pendulum-v1"
    import_dataset(path, tmp_path / "out.zarr")
    with Dataset.open(tmp_path / "out.zarr") as dataset:
        assert task_of(dataset.env) == resolve("Pendulum-v1")
