"""`resize`: a dataset with its images in another size."""

from __future__ import annotations

import numpy as np
import pytest

from wmtk.datasets import Dataset, Episode, Provenance, Schema, resize
from wmtk.datasets.integrity.validate import validate
from wmtk.errors import ConfigError, DatasetError, UsageError
from wmtk.observations import ObsCodec
from wmtk.spaces import ArraySpec

SCHEMA = Schema(
    obs={
        "front": ArraySpec("box", (40, 50, 3), "uint8", 0, 255),
        "wrist": ArraySpec("box", (3, 36, 36), "float32", 0.0, 1.0),
        "grid": ArraySpec("box", (5, 5, 3), "uint8", 0, 10),
        "state": ArraySpec("box", (2,), "float32"),
    },
    action=ArraySpec("discrete", (), "int64", 0, 2),
)
ENV = {"task": "my:Robot", "kind": "module", "size": 0}


@pytest.fixture
def cameras(tmp_path):
    rng = np.random.default_rng(0)
    with Dataset.create(tmp_path / "cameras.zarr", SCHEMA, env=ENV) as dataset:
        for seed, length in enumerate((5, 3, 8)):
            obs = {
                key: (rng.random((length + 1, *spec.shape)) * (1 if key == "wrist" else 10)).astype(
                    spec.dtype
                )
                for key, spec in SCHEMA.obs.items()
            }
            action = np.zeros(length + 1, np.int64)
            reward = np.zeros(length + 1)
            by = Provenance("my:Robot", policy="random")
            dataset.append(Episode(obs, action, reward, True, False, {}, seed, by))
    return tmp_path / "cameras.zarr"


def test_all_images_are_resized_and_nothing_else_changes(cameras, tmp_path) -> None:
    progress = []
    report = resize(
        cameras, tmp_path / "small.zarr", 16, progress=lambda *done: progress.append(done)
    )
    assert (report.episodes, report.steps, report.dropped) == (3, 16, 0)
    assert progress[-1] == (3, 3)
    assert validate(tmp_path / "small.zarr").ok
    with Dataset.open(cameras) as old, Dataset.open(tmp_path / "small.zarr") as new:
        for key in ("front", "wrist"):
            assert new.schema.obs[key] == ArraySpec("box", (16, 16, 3), "uint8", 0, 255)
        assert new.schema.obs["grid"] == SCHEMA.obs["grid"]
        assert new.header["attributes"]["made_by"] == "resize"
        assert new.header["attributes"]["sources"][0]["id"] == old.id
        seen = ObsCodec(SCHEMA.obs, image_size=16)
        for before, after in zip(old, new, strict=True):
            for key in ("front", "wrist"):
                np.testing.assert_array_equal(after.obs[key], seen.rows(key, before.obs[key]))
            for key in ("grid", "state"):
                np.testing.assert_array_equal(after.obs[key], before.obs[key])
            assert (after.seed, after.provenance) == (before.seed, before.provenance)


def test_some_keys_are_resized(cameras, tmp_path) -> None:
    resize(cameras, tmp_path / "new.zarr", 32, keys=["front", "grid"])
    with Dataset.open(tmp_path / "new.zarr") as new:
        shapes = {key: spec.shape for key, spec in new.schema.obs.items()}
        assert new.env["size"] == 0, "the task does not give a grid of that size"
    assert shapes == {
        "front": (32, 32, 3),
        "wrist": (3, 36, 36),
        "grid": (32, 32, 3),
        "state": (2,),
    }


def test_the_task_gives_images_of_that_size_from_then_on(cameras, tmp_path) -> None:
    resize(cameras, tmp_path / "new.zarr", 32, keys=["front"])
    with Dataset.open(tmp_path / "new.zarr") as new:
        assert new.env == {**ENV, "size": 32}


def test_what_makes_no_sense_is_refused(cameras, tmp_path) -> None:
    target = tmp_path / "new.zarr"
    with pytest.raises(ConfigError, match="Did you mean 'front'"):
        resize(cameras, target, keys=["frnt"])
    with pytest.raises(ConfigError, match=r"'state' .* cannot be used as an image"):
        resize(cameras, target, keys=["state"])
    with pytest.raises(UsageError, match="0×0"):
        resize(cameras, target, 0)
    with pytest.raises(DatasetError, match="exists already"):
        resize(cameras, cameras, 16)
    resize(cameras, target, 16, keys=["front", "wrist"])
    with pytest.raises(UsageError, match="holds no images of 32×32"):
        resize(target, tmp_path / "other.zarr")
    with pytest.raises(UsageError, match="16×16 already"):
        resize(target, tmp_path / "other.zarr", 16, keys=["front"])
    assert not (tmp_path / "other.zarr").exists()


def test_the_command(run_wmtk, cameras, tmp_path) -> None:
    out = tmp_path / "small.zarr"
    done = run_wmtk("data", "resize", cameras, "--out", out, "--keys", "front", "--size", 20)
    assert done.exit_code == 0, done.stderr
    assert "3 episodes, 16 steps." in done.stdout
    assert "resize" in done.stderr
    with Dataset.open(out) as new:
        assert new.schema.obs["front"].shape == (20, 20, 3)
