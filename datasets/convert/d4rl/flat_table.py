"""The arrays of a D4RL-style HDF5 file, checked before they are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets.convert import hdf5
from wmtk.datasets.convert.alignment import INFERRED_ACTIONS, infer_action, observation_key
from wmtk.datasets.convert.formats import Losses
from wmtk.datasets.convert.sidecar import KEY
from wmtk.datasets.convert.untrusted import parse_json, plain
from wmtk.datasets.schema import Schema
from wmtk.errors import ConversionError, SpaceError
from wmtk.spaces import ArraySpec, check_key

FINAL_INFOS = "wmtk_final_infos"  # in metadata/: the last row of each info
_KNOWN = {"observations", "next_observations", "actions", "rewards", "terminals", "timeouts"}
_BLOCK = 4096


@dataclass
class FlatTable:
    """The arrays of an open file, all with the same number of rows."""

    path: Path
    file: Any
    losses: Losses

    def __post_init__(self) -> None:
        self.rewards = hdf5.array(self.file, "rewards", self.path)
        self.actions = hdf5.array(self.file, "actions", self.path)
        self.length = int(self.rewards.shape[0])
        self.obs = self._group("observations")
        self.next_obs = self._group("next_observations")
        if not self.obs or self.rewards.size != self.length:
            raise ConversionError(
                f"{self.path} has no observations, or its rewards are not one number per row.",
                "It is damaged or not of this format.",
                self.path,
            )
        for node in (self.actions, *self.obs.values(), *self.next_obs.values()):
            self._require_length(node)
        if self.next_obs.keys() != self.obs.keys():
            self.next_obs = {}
        for key, node in self.next_obs.items():
            if node.shape != self.obs[key].shape:
                raise ConversionError(
                    f"{node.name} in {self.path} has shape {node.shape}, but the observations "
                    f"have {self.obs[key].shape}.",
                    "The file is damaged or not of this format.",
                    self.path,
                )
        if other := sorted(set(self.file) - _KNOWN - {"infos", "metadata"}):
            self.losses.note(f"Not part of the format, not imported: {', '.join(other)}.")

    def _require_length(self, node: Any) -> None:
        if node.shape[0] != self.length:
            raise ConversionError(
                f"{node.name} in {self.path} has {node.shape[0]:,} rows, but there are "
                f"{self.length:,} rewards.",
                "The file is damaged or not of this format.",
                self.path,
            )

    def _group(self, name: str) -> dict[str, Any]:
        """The arrays of a group by key; a single array has the key ""."""
        node = hdf5.child(self.file, name, self.path)
        if node is None:
            return {}
        if not hdf5.is_group(node):
            return {"": hdf5.array(self.file, name, self.path)}
        leaves = dict(hdf5.leaves(node, self.path))
        for leaf in leaves.values():
            hdf5.check_array(leaf, self.path)
        return leaves

    @cached_property
    def infos(self) -> dict[str, Any]:
        """The arrays under infos/ that datasets can store."""
        node = hdf5.child(self.file, "infos", self.path)
        leaves = {} if node is None else dict(hdf5.leaves(node, self.path))
        for key, leaf in list(leaves.items()):
            if not self._is_info(key, leaf):
                del leaves[key]
                self.losses.note(f"infos/{key} is not one number or array per row: not imported.")
        return leaves

    def _is_info(self, key: str, leaf: Any) -> bool:
        try:
            check_key(key, "The info key")
        except SpaceError:
            return False
        if not hdf5.is_numeric(leaf) or leaf.shape[:1] != (self.length,) or 0 in leaf.shape:
            return False
        hdf5.check_array(leaf, self.path)
        return True

    def flags(self, name: str) -> NDArray[np.bool_] | None:
        if hdf5.child(self.file, name, self.path) is None:
            return None
        node = hdf5.array(self.file, name, self.path)
        self._require_length(node)
        values = hdf5.rows(node, 0, self.length, self.path)
        return np.asarray((values != 0).any(axis=tuple(range(1, values.ndim))))

    def schema(self) -> Schema:
        """The schema inferred from the arrays."""
        specs = {key: _spec(node) for key, node in self.obs.items()}
        obs = {key or observation_key(spec): spec for key, spec in specs.items()}
        low = high = 0
        if self.actions.dtype.kind in "iu":
            values = hdf5.rows(self.actions, 0, self.length, self.path)
            low, high = int(values.min(initial=0)), int(values.max(initial=0))
        return Schema(
            obs=obs,
            action=infer_action(self.actions.shape, self.actions.dtype.name, low, high),
            reward=reward_spec(self.rewards.dtype),
            info={key: _spec(node) for key, node in self.infos.items()},
        )

    def _metadata(self) -> Any | None:
        node = hdf5.child(self.file, "metadata", self.path)
        return node if node is not None and hdf5.is_group(node) else None

    def description(self) -> dict[str, Any] | None:
        """The sidecar, if wmtk wrote the file."""
        group = self._metadata()
        if group is None or KEY not in group:
            return None
        node = hdf5.array(group, KEY, self.path)
        return parse_json(hdf5.rows(node, 0, node.shape[0], self.path).tobytes(), self.path)

    def final_infos(self, count: int) -> dict[str, Any]:
        """The last row of each info per episode, if wmtk wrote the file."""
        group = self._metadata()
        inside = None if group is None else hdf5.child(group, FINAL_INFOS, self.path)
        finals = {} if inside is None else dict(hdf5.leaves(inside, self.path))
        shapes = {key: (count, *node.shape[1:]) for key, node in self.infos.items()}
        fit = {key: node.shape for key, node in finals.items()} == shapes
        return finals if fit else {}

    def metadata(self) -> dict[str, Any]:
        """Metadata and attributes of the file, which an export writes back."""
        metadata: dict[str, Any] = {}
        group = self._metadata()
        for key, node in [] if group is None else hdf5.leaves(group, self.path):
            if key == KEY or key.startswith(f"{FINAL_INFOS}/"):
                continue
            if node.size is None or node.size > 4096 or node.dtype.kind not in "biufSO":
                self.losses.note(f"metadata/{key} is not a short text or number: not imported.")
            else:
                metadata[key] = plain(node[()])
        attributes = {str(name): plain(value) for name, value in self.file.attrs.items()}
        return {"metadata": metadata, "attributes": attributes}

    def gaps(self) -> NDArray[np.bool_]:
        """Flags (rows,) of steps whose next_observations differ from the next row."""
        gaps = np.zeros(self.length, bool)
        for key, following in self.next_obs.items():
            for start in range(0, self.length - 1, _BLOCK):
                stop = min(start + _BLOCK, self.length - 1)
                after = hdf5.rows(following, start, stop, self.path)
                row = hdf5.rows(self.obs[key], start + 1, stop + 1, self.path)
                gaps[start:stop] |= differ(after, row)
        return gaps

    def note_inferred(self) -> None:
        if self.actions.dtype.kind in "iu":
            self.losses.note(INFERRED_ACTIONS)


def _spec(node: Any) -> ArraySpec:
    return ArraySpec("box", node.shape[1:], node.dtype.name)


def reward_spec(dtype: np.dtype[Any]) -> ArraySpec:
    """float32 for float16 and float32, float64 for other dtypes."""
    return ArraySpec("box", (), "float32" if dtype.name in {"float16", "float32"} else "float64")


def differ(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Flags (rows,) of rows that differ by more than rounding errors."""
    same = np.isclose(a, b, equal_nan=True) if a.dtype.kind == "f" else a == b
    return np.asarray(~same.all(axis=tuple(range(1, same.ndim))))
