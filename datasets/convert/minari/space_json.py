"""Minari's dataset ids, serialized spaces and paths of arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from wmtk.documents import check_depth
from wmtk.errors import ConversionError, MissingDependencyError, WmtkError
from wmtk.spaces import DTYPES, MAX_ROW_BYTES, Structure

if TYPE_CHECKING:
    import gymnasium as gym

DATASET_ID = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_-]*/)*[A-Za-z0-9_][A-Za-z0-9_-]*-v[0-9]+")
MAIN_FILE = "main_data.hdf5"
METADATA = "metadata.json"
EPISODE_KEY = "wmtk"  # attribute of an episode group with seed and provenance
# Metadata of the storage, which every export rewrites.
STORAGE_KEYS = frozenset(
    [
        "total_episodes",
        "total_steps",
        "data_format",
        "jpeg_encoding",
        "observation_space",
        "action_space",
        "dataset_size",
        "wmtk",
    ]
)


def load_minari() -> ModuleType:
    try:
        import minari
        import minari.serialization
    except ImportError as error:
        raise MissingDependencyError("minari", "convert", "Minari's space descriptions") from error
    module: ModuleType = minari
    return module


def parse_space(text: Any, path: Path) -> gym.Space[Any]:
    """Deserialize a space; declared sizes are checked before it is built."""
    try:
        document = check_depth(json.loads(text))
        _check(document, 0)
        space: gym.Space[Any] = load_minari().serialization.deserialize_space(document)
    except WmtkError:
        raise
    except Exception as error:  # gymnasium's spaces raise many types
        raise ConversionError(
            f"{path} describes a space that cannot be read ({error}).",
            "Supported: Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these.",
            path,
        ) from error
    return space


def _check(space: Any, depth: int) -> None:
    kind = space["type"]
    if depth > 16:
        raise ValueError("nested too deeply")
    if kind in ("Dict", "Tuple"):
        subspaces = space["subspaces"]
        for sub in subspaces.values() if kind == "Dict" else subspaces:
            _check(sub, depth + 1)
    elif kind in ("Box", "MultiBinary"):
        shape = space["shape"] if kind == "Box" else np.atleast_1d(space["n"]).tolist()
        dtype = space["dtype"] if kind == "Box" else "int8"
        if dtype not in DTYPES:
            raise ValueError(f"dtype {dtype!r}")
        size = np.dtype(dtype).itemsize
        for length in shape:
            size *= int(length)
        if size > MAX_ROW_BYTES or any(int(length) < 1 for length in shape):
            raise ValueError(f"shape {shape}")
    elif kind not in ("Discrete", "MultiDiscrete"):
        raise ValueError(f"{kind} spaces have no fixed shape")


def array_paths(structure: Structure, prefix: str = "observations") -> dict[str, str]:
    """The path of each observation key in an episode group."""
    if isinstance(structure, str):
        return {structure: prefix}
    paths: dict[str, str] = {}
    if "dict" in structure:
        for name, sub in structure["dict"].items():
            paths |= array_paths(sub, f"{prefix}/{name}")
    else:
        for number, sub in enumerate(structure["tuple"]):
            paths |= array_paths(sub, f"{prefix}/_index_{number}")
    return paths


def nested(structure: Structure) -> Structure:
    """The structure with names such as 'robot/pose' as nested Dicts, like HDF5 groups."""
    if isinstance(structure, str):
        return structure
    if "tuple" in structure:
        return {"tuple": [nested(sub) for sub in structure["tuple"]]}
    children: dict[str, Any] = {}
    for name, sub in structure["dict"].items():
        at = children
        *groups, leaf = name.split("/")
        for group in groups:
            at = at.setdefault(group, {"dict": {}})["dict"]
        at[leaf] = nested(sub)
    return {"dict": children}


def env_spec(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The id, keyword arguments and time limit of Minari's env_spec, without building it."""
    try:
        spec = json.loads(metadata["env_spec"])
        limit = spec.get("max_episode_steps")
        return {
            "id": str(spec["id"]),
            "kwargs": dict(spec.get("kwargs") or {}),
            "time_limit": limit if type(limit) is int else None,
        }
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return {}
