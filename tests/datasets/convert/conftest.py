"""Small datasets of every kind of space, and what Minari's collector needs to run."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.spaces import ArraySpec

ENDS = [(True, False), (False, True), (False, False)]  # terminated, truncated, cut


def _image() -> Schema:
    return Schema(
        obs={"image": ArraySpec("box", (8, 8, 3), "uint8", 0, 255)},
        action=ArraySpec("discrete", (), "int64", 0, 3),
    )


def _vector() -> Schema:
    return Schema(
        obs={"state": ArraySpec("box", (3,), "float32", -8.0, (8.0))},
        action=ArraySpec("box", (2,), "float32", -1.0, 1.0),
        reward=ArraySpec("box", (), "float32"),
    )


def _nested() -> Schema:
    return Schema(
        obs={
            "camera/front": ArraySpec("box", (6, 5, 1), "uint8", 0, 255),
            "joints": ArraySpec("box", (4,), "float64"),
        },
        action=ArraySpec("multi_discrete", (2,), "int64", (0, 0), (2, 4)),
        info={
            "score": ArraySpec("box", (), "float64"),
            "deep/flags": ArraySpec("box", (2,), "bool"),
        },
        structure={"dict": {"camera": {"dict": {"front": "camera/front"}}, "joints": "joints"}},
    )


def _tuple() -> Schema:
    return Schema(
        obs={
            "_index_0": ArraySpec("discrete", (), "int64", 0, 6),
            "_index_1": ArraySpec("box", (2,), "float32"),
        },
        action=ArraySpec("discrete", (), "int32", -1, 1),
        structure={"tuple": ["_index_0", "_index_1"]},
    )


SCHEMAS = {"image": _image, "vector": _vector, "nested": _nested, "tuple": _tuple}


def rows_of(spec: ArraySpec, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Random values within the bounds that float32 holds exactly."""
    shape = (rows, *spec.shape)
    if spec.dtype == "bool":
        return rng.random(shape) < 0.5
    if spec.dtype.startswith("float"):
        most = int(min(8, spec.bound("high").min())) * 8
        return (rng.integers(-most, most, shape) / 8).astype(spec.dtype)
    low, high = spec.bound("low"), spec.bound("high")
    return rng.integers(low, high.astype(np.int64) + 1, shape).astype(spec.dtype)


def make_episode(schema: Schema, number: int, steps: int) -> Episode:
    rng = np.random.default_rng(number)
    action = rows_of(schema.action, steps + 1, rng)
    reward = rows_of(schema.reward, steps + 1, rng)
    action[0], reward[0] = 0, 0
    terminated, truncated = ENDS[number % 3]
    return Episode(
        obs={key: rows_of(spec, steps + 1, rng) for key, spec in schema.obs.items()},
        action=action,
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        info={key: rows_of(spec, steps + 1, rng) for key, spec in schema.info.items()},
        seed=None if number == 1 else 1000 + number,
        provenance=Provenance(
            env_id="catch",
            env_kwargs={"size": 8},
            policy=f"policy {number % 2}",
            extra={"note": [1, 2, {"deep": number}]},
        ),
    )


def build_dataset(path: Path, kind: str, lengths: tuple[int, ...] = (5, 1, 9, 3)) -> Dataset:
    schema = SCHEMAS[kind]()
    dataset = Dataset.create(
        path, schema, env={"id": "catch", "kwargs": {"size": 8}}, attributes={"who": ["me"]}
    )
    dataset.append([make_episode(schema, n, steps) for n, steps in enumerate(lengths)])
    return dataset


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power: waiting for the disk would only make them slow."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=sorted(SCHEMAS))
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    return build_dataset(tmp_path / "ours", request.param)


@pytest.fixture
def make_dataset() -> Callable[..., Dataset]:
    return build_dataset


@pytest.fixture
def vectors(tmp_path: Path) -> Dataset:
    return build_dataset(tmp_path / "ours", "vector")


@pytest.fixture
def minari_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Minari datasets, and the one function of jax that its collector calls."""
    home = tmp_path / "minari"
    home.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(home))
    if importlib.util.find_spec("jax") is None:
        tree_util = types.ModuleType("jax.tree_util")
        tree_util.tree_map = _tree_map  # type: ignore[attr-defined]
        jax = types.ModuleType("jax")
        jax.tree_util = tree_util  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "jax", jax)
        monkeypatch.setitem(sys.modules, "jax.tree_util", tree_util)
    return home


def _tree_map(function: Any, tree: Any, *others: Any) -> Any:
    if isinstance(tree, dict):
        return {k: _tree_map(function, v, *[other[k] for other in others]) for k, v in tree.items()}
    if isinstance(tree, tuple):
        parts = zip(tree, *others, strict=True)
        return tuple(_tree_map(function, *part) for part in parts)
    return function(tree, *others)
