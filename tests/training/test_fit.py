"""Data whose spaces do not fit is refused, with both sides named."""

from __future__ import annotations

import pytest

import wmtk
from wmtk.datasets import Source
from wmtk.errors import SchemaMismatchError
from wmtk.spaces import ArraySpec
from wmtk.training.model_stage import train_model

VECTOR = ArraySpec("box", (3,), "float64")


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"obs": {"state": ArraySpec("box", (4,), "float64")}}, "obs/state: box 3 .* box 4 "),
        ({"obs": {"pose": VECTOR}}, "obs/state: box 3 float64 against nothing"),
        ({"actions": 5}, r"action: discrete\(3\) against discrete\(5\)"),
    ],
    ids=["shape", "key", "actions"],
)
class TestOtherSpaces:
    def test_in_a_mix(self, make_dataset, config, tmp_path, other, difference) -> None:
        sources = [Source(make_dataset("a.zarr")), Source(make_dataset("b.zarr", **other))]
        with pytest.raises(SchemaMismatchError, match=rf"(?s)a\.zarr.*b\.zarr.*{difference}"):
            train_model(sources, tmp_path / "run", config, updates=1)
        assert not (tmp_path / "run").exists()

    def test_on_resuming(self, make_dataset, config, tmp_path, other, difference) -> None:
        train_model([Source(make_dataset("a.zarr"))], tmp_path / "run", config, updates=1)
        source = Source(make_dataset("b.zarr", **other))
        with pytest.raises(SchemaMismatchError, match=rf"(?s)run.*b\.zarr.*{difference}"):
            train_model([source], tmp_path / "run", config, updates=2, resume=True)

    def test_for_a_loaded_model(self, make_dataset, config, tmp_path, other, difference) -> None:
        known = make_dataset("a.zarr")
        train_model([Source(known)], tmp_path / "run", config, updates=1)
        model = wmtk.load(tmp_path / "run")
        model.require_fit(known)
        unknown = make_dataset("b.zarr", **other)
        with pytest.raises(SchemaMismatchError, match=rf"(?s)run.*b\.zarr.*{difference}"):
            model.require_fit(unknown)
        with pytest.raises(SchemaMismatchError, match=r"(?i)the model"):
            model.observe(unknown[0])


def test_an_array_more_than_the_model_sees_does_no_harm(make_dataset, config, tmp_path) -> None:
    train_model([Source(make_dataset("a.zarr"))], tmp_path / "run", config, updates=1)
    more = make_dataset("b.zarr", obs={"state": VECTOR, "extra": VECTOR})
    model = wmtk.load(tmp_path / "run")
    model.require_fit(more)
    assert model.observe(more[0]).deter.shape[1] == more[0].length + 1
