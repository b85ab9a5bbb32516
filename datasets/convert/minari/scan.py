"""Scan shapes and dtypes of the arrays of a Minari file before they are read."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.convert import hdf5
from wmtk.datasets.convert.formats import Losses
from wmtk.datasets.convert.minari.space_json import array_paths
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, SpaceError
from wmtk.spaces import ArraySpec, check_key, flatten_space

if TYPE_CHECKING:
    import gymnasium as gym


class ArrayScan:
    """The shapes and dtypes of all episodes, and their common schema."""

    def __init__(
        self,
        path: Path,
        file: Any,
        count: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        losses: Losses,
    ) -> None:
        self.path = path
        self._file = file
        self._losses = losses
        self.structure, self._specs = flatten_space(observation_space)
        self._action = ArraySpec.from_gymnasium(action_space)
        self.paths = array_paths(self.structure)
        self.jpeg: set[str] = set()
        self.info_offset: dict[str, int] = {}  # rows of an info beyond T
        self._dtypes: dict[str, set[str]] = {}
        self._infos: dict[str, tuple[int, int, tuple[int, ...]]] = {}
        self._info_counts: dict[str, int] = {}
        self.numbers: list[int] = []
        for number in range(count):
            self._scan_episode(number)
        extra = sum(name.startswith("episode_") for name in hdf5.names(file)) - count
        losses.note("{n} episodes beyond the metadata's total were not imported.", max(0, extra))

    def rename(self, key: str) -> str:
        """The name of an observation key in the file; a single array has its own key."""
        return self.structure if isinstance(self.structure, str) else key

    def group(self, number: int) -> Any:
        node = hdf5.child(self._file, f"episode_{number}", self.path)
        if node is None or not hdf5.is_group(node):
            raise ConversionError(
                f"{self.path} has no episode_{number}, which its metadata counts.",
                "The dataset is incomplete: copy it again.",
                self.path,
            )
        return node

    def node(self, group: Any, path: str) -> Any:
        """A node below an episode; all links on its path are checked."""
        for name in path.split("/"):
            child = hdf5.child(group, name, self.path) if hdf5.is_group(group) else None
            if child is None:
                raise ConversionError(
                    f"{self.path} has no {path} in {group.name}.", "It is damaged.", self.path
                )
            group = child
        return group

    def _scan_episode(self, number: int) -> None:
        group = self.group(number)
        steps = len(hdf5.array(group, "rewards", self.path))
        if steps == 0:
            self._losses.note("{n} episodes without a step were not imported.")
            return
        self.numbers.append(number)
        for key, path in self.paths.items():
            node = self.node(group, path)
            if _is_jpeg(node, self._specs[key]):
                self.jpeg.add(key)
                self._require_rows(node, steps + 1)
            else:
                self._require(node, f"obs/{key}", self._specs[key], steps + 1)
        self._require(self.node(group, "actions"), "action", self._action, steps)
        self._require(self.node(group, "rewards"), "reward", None, steps)
        for flag in ("terminations", "truncations"):
            self._require(self.node(group, flag), flag, None, steps)
        for key, node in self._info_leaves(group):
            if hdf5.is_numeric(node) and node.ndim and 0 not in node.shape:
                hdf5.check_array(node, self.path)
                layout = (len(node) - steps, node.ndim, node.shape[1:])
                if self._infos.setdefault(key, layout) == layout:
                    self._info_counts[key] = self._info_counts.get(key, 0) + 1
                self._dtypes.setdefault(f"info/{key}", set()).add(node.dtype.name)
            else:
                self._info_counts.setdefault(key, 0)

    def _info_leaves(self, group: Any) -> Iterator[tuple[str, Any]]:
        infos = hdf5.child(group, "infos", self.path)
        if infos is not None and hdf5.is_group(infos):
            yield from hdf5.leaves(infos, self.path)

    def _require(self, node: Any, what: str, spec: ArraySpec | None, rows: int) -> None:
        hdf5.check_array(node, self.path)
        if spec is not None and node.shape[1:] != spec.shape:
            raise ConversionError(
                f"{node.name} in {self.path} has rows of shape {node.shape[1:]}, but the space "
                f"declares {spec.shape}.",
                "The dataset is damaged or was not written by Minari.",
                self.path,
            )
        self._require_rows(node, rows)
        self._dtypes.setdefault(what, set()).add(node.dtype.name)

    def _require_rows(self, node: Any, rows: int) -> None:
        if node.shape[:1] != (rows,):
            raise ConversionError(
                f"{node.name} in {self.path} has shape {node.shape} instead of {rows} rows.",
                "The dataset is damaged or was not written by Minari.",
                self.path,
            )

    @cached_property
    def schema(self) -> Schema:
        obs = {key: self._stored(f"obs/{key}", spec) for key, spec in self._specs.items()}
        for key in sorted(self.jpeg):
            self._losses.note(
                f"obs/{key} is stored as JPEG, which is lossy: its pixels are close to those of "
                "the environment, but not equal."
            )
        reward = np.result_type(*self._dtypes.get("reward", {"float64"})).name
        return Schema(
            obs=obs,
            action=self._stored("action", self._action),
            reward=ArraySpec("box", (), reward if reward == "float32" else "float64"),
            info=self._info_specs(),
            structure=self.structure,
        )

    def _stored(self, what: str, spec: ArraySpec) -> ArraySpec:
        """The specification with the dtype of the stored values."""
        if what.removeprefix("obs/") in self.jpeg and what.startswith("obs/"):
            return spec
        dtype = np.result_type(*self._dtypes.get(what, {spec.dtype})).name
        if spec.kind != "box":  # Minari's integer spaces have no dtype of their own
            return replace(spec, dtype=dtype) if np.dtype(dtype).kind in "iu" else spec
        if dtype == spec.dtype:
            return spec
        self._losses.note(
            f"{what} is declared as {spec.dtype} but stored as {dtype}: kept as stored, without "
            "the declared bounds."
        )
        return ArraySpec("box", spec.shape, dtype)

    def _info_specs(self) -> dict[str, ArraySpec]:
        specs = {}
        for key, count in self._info_counts.items():
            try:
                check_key(key, "The info key")
                offset, _, shape = self._infos[key]
                if count != len(self.numbers) or offset not in (0, 1):
                    raise KeyError(key)
                dtype = np.result_type(*self._dtypes[f"info/{key}"]).name
                specs[key] = ArraySpec("box", shape, dtype)
                self.info_offset[key] = offset
            except (KeyError, SpaceError):
                self._losses.note(
                    f"infos/{key} is not one number or array of one shape per step in every "
                    "episode: not imported."
                )
        return specs


def _is_jpeg(node: Any, spec: ArraySpec) -> bool:
    """Whether a node has JPEG frames: rows of bytes of equal or different lengths."""
    image = spec.dtype == "uint8" and len(spec.shape) in (2, 3)
    if not image or hdf5.is_group(node) or node.shape[1:] == spec.shape:
        return False
    ragged = node.ndim == 1 and hdf5.load_h5py().check_vlen_dtype(node.dtype) == np.uint8
    return bool(ragged or (node.ndim == 2 and node.dtype == np.uint8))


def decode_jpeg(node: Any, spec: ArraySpec, path: Path) -> NDArray[Any]:
    from PIL import Image

    frames = spec.zeros(len(node))
    try:
        for number, data in enumerate(node[()]):
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                image = Image.open(io.BytesIO(data.tobytes()), formats=["JPEG"])
            channels = () if len(image.getbands()) == 1 else (len(image.getbands()),)
            if (image.height, image.width, *channels) != spec.shape:
                raise ValueError(f"frame {number} has another size")
            frames[number] = np.asarray(image)
    except (OSError, ValueError, RuntimeError, Warning, Image.DecompressionBombError) as error:
        raise ConversionError(
            f"{node.name} in {path} does not contain JPEG frames of the declared size ({error}).",
            "The dataset is damaged: copy it again.",
            path,
        ) from error
    return frames
