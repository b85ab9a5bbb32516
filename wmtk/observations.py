"""Observations as a model takes them: the keys that it sees, and images in the size it knows.

This is the only place where stored rows and the frames of an environment become model inputs:
training batches, validation, acting, `wmtk.load` and the viewers all come through `ObsCodec`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.area_resize import AreaScaler
from wmtk.config import nearest
from wmtk.errors import ConfigError, SchemaMismatchError
from wmtk.reprs import brief
from wmtk.spaces import SMALLEST_PICTURE, ArraySpec

Bytes = NDArray[np.uint8]

IMAGE_SIZE = 64  # height and width that the networks of the paper take
LEAST_NOTED = 7  # pixels; what may be an image of that size is not learned silently as a vector
PIECE = 256  # frames that are converted at a time, which bounds the memory


class ObsCodec:
    """Rows of a dataset or an environment → what a model takes, by key.

    `sources` are the spaces of the chosen keys as they are stored, `specs` those that the model
    sees: images as bytes (image_size, image_size, C), images that are learned as vectors flat,
    everything else as it is.
    """

    def __init__(
        self,
        obs: Mapping[str, ArraySpec],
        *,
        image_size: int = IMAGE_SIZE,
        obs_keys: Sequence[str] = (),
        as_image: Sequence[str] = (),
        as_vector: Sequence[str] = (),
        image_range: tuple[float, float] | None = None,
    ) -> None:
        """`image_range` is black and white in images whose space does not say it."""
        if image_range is not None and not image_range[0] < image_range[1]:
            raise ConfigError(
                f"data.image_range {list(image_range)} is no range.", "Give black, then white."
            )
        self.sources = {
            key: _with_range(obs[key], image_range) for key in chosen_keys(obs, obs_keys)
        }
        for name, keys in {"data.as_image": as_image, "data.as_vector": as_vector}.items():
            _require_known(keys, obs, f"{name}: ")
        if both := set(as_image) & set(as_vector):
            raise ConfigError(
                f"data.as_image and data.as_vector both name {sorted(both)[0]!r}.",
                "Name each key in one of them.",
            )
        self.image_size = image_size
        self.specs: dict[str, ArraySpec] = {}
        self.notes: list[str] = []  # what becomes of images, in words
        self._scalers: dict[tuple[int, int], AreaScaler] = {}
        for key, spec in self.sources.items():
            self.specs[key] = self._seen(key, spec, key in as_image, key in as_vector)

    def __repr__(self) -> str:
        return f"ObsCodec({brief({key: str(spec) for key, spec in self.specs.items()})})"

    def _seen(self, key: str, spec: ArraySpec, as_image: bool, as_vector: bool) -> ArraySpec:
        """The space of a key as the model sees it."""
        least = min((spec.image_shape() or (0, 0))[:2])
        small = least < SMALLEST_PICTURE
        if as_vector or (small and not as_image and (spec.is_image or least >= LEAST_NOTED)):
            return self._as_vector(key, spec, small=small and not as_vector)
        if as_image or spec.is_image:
            return self._as_image(key, spec)
        if spec.looks_like_image:
            raise ConfigError(
                f"{key!r} ({spec}) has the size of images, but {_obstacle(spec)}.",
                f"{_remedy(spec)}; leave it out (--obs-keys=-{key}), or learn it as a vector of "
                f"{spec.numbers:,} numbers (--set data.as_vector={key}).",
            )
        return spec

    def _as_vector(self, key: str, spec: ArraySpec, *, small: bool) -> ArraySpec:
        if small:
            self.notes.append(
                f"{key}: {_size(spec.shape)} {spec.dtype} is learned as a vector of "
                f"{spec.numbers} numbers; --set data.as_image={key} learns it as an image."
            )
        if not (spec.is_image or spec.looks_like_image):
            return spec
        return ArraySpec("box", (spec.numbers,), spec.dtype)

    def _as_image(self, key: str, spec: ArraySpec) -> ArraySpec:
        shape = spec.image_shape()
        if shape is None or spec.image_range is None:
            raise ConfigError(
                f"{key!r} ({spec}) cannot be used as an image: {_obstacle(spec)}.",
                f"{_remedy(spec)}, or do not name {key} as an image.",
            )
        size, (height, width, channels) = self.image_size, shape
        seen = ArraySpec("box", (size, size, channels), "uint8", 0, 255)
        if (spec.shape, spec.dtype) == (seen.shape, seen.dtype):
            return spec
        plain = spec.dtype == "uint8" and spec.shape in (shape, shape[:2])
        many = len(self.sources) > 1
        low, high = spec.image_range
        form = (
            f"{height}×{width}"
            if plain
            else f"{_size(spec.shape)} ({spec.dtype}, {low:g} to {high:g})"
        )
        name = f"Images {key!r} of" if many else "Images of"
        fits = (height, width) == (size, size)
        what = "converted to bytes" if fits else f"resized to {size}×{size} (data.image_size)"
        self.notes.append(f"{name} {form} are {what}.")
        return seen

    def __call__(self, obs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The chosen keys, each (…, stored shape) → (…, shape that the model sees).

        Rows that the model can take as they are stay as they are: twice is the same as once.
        """
        return {key: self.rows(key, obs[key]) for key in self.specs}

    def rows(self, key: str, rows: NDArray[Any]) -> NDArray[Any]:
        """The same for the rows of one key."""
        source, spec = self.sources[key], self.specs[key]
        if not self.changes(key):
            return rows
        if not _holds(rows, source):
            if _holds(rows, spec):
                return rows
            raise SchemaMismatchError(
                f"Rows of {key!r} have shape {rows.shape} and dtype {rows.dtype.name}; the model "
                f"takes {source}.",
                "A model works with data of the spaces that it was trained on.",
            )
        lead = rows.shape[: rows.ndim - len(source.shape)]
        if not spec.is_image:
            return rows.reshape(*lead, *spec.shape)
        frames = rows.reshape(-1, *source.shape)
        out = np.empty((len(frames), *spec.shape), np.uint8)
        for first in range(0, len(frames), PIECE):
            piece = slice(first, first + PIECE)
            self._resize(to_bytes(source, frames[piece], key), out[piece])
        return out.reshape(*lead, *spec.shape)

    def changes(self, key: str) -> bool:
        """Whether the rows of a key are converted."""
        source, spec = self.sources[key], self.specs[key]
        return (source.shape, source.dtype) != (spec.shape, spec.dtype)

    def _resize(self, frames: Bytes, out: Bytes) -> None:
        """(N, H, W, C) → (N, size, size, C), frame by frame: the same for one and for many."""
        height, width = frames.shape[1:3]
        if frames.shape == out.shape:
            out[:] = frames
            return
        scaler = self._scalers.get((height, width))
        if scaler is None:
            scaler = self._scalers[height, width] = AreaScaler(height, width, self.image_size)
        for number, frame in enumerate(frames):
            out[number] = scaler(frame)


def _with_range(spec: ArraySpec, limits: tuple[float, float] | None) -> ArraySpec:
    unknown = spec.kind == "box" and spec.image_shape() is not None and spec.image_range is None
    return replace(spec, low=limits[0], high=limits[1]) if limits and unknown else spec


def images_of(obs: Mapping[str, ArraySpec], *, plain: bool = False) -> list[str]:
    """The keys of images that are learned as such, or only of those that are bytes already."""
    found = []
    for key, spec in obs.items():
        shape = spec.image_shape(SMALLEST_PICTURE)
        bytes_already = spec.dtype == "uint8" and spec.shape in (shape, (shape or ())[:2])
        if spec.is_image and shape is not None and (bytes_already or not plain):
            found.append(key)
    return found


def to_bytes(spec: ArraySpec, rows: NDArray[Any], key: str = "image") -> Bytes:
    """Images (…, stored shape) of any form as bytes (…, height, width, channels)."""
    shape, limits = spec.image_shape(), spec.image_range
    assert shape is not None, spec
    assert limits is not None, spec
    lead = rows.shape[: rows.ndim - len(spec.shape)]
    if len(spec.shape) == 3 and spec.shape != shape:
        rows = np.moveaxis(rows, -3, -1)
    if spec.dtype != "uint8":
        low, high = limits
        scaled = (rows.astype(np.float32) - np.float32(low)) * np.float32(255 / (high - low))
        if np.isnan(scaled).any():
            raise SchemaMismatchError(
                f"Images {key!r} hold values that are not numbers (NaN).",
                "Correct the environment or the data that they come from.",
            )
        rows = np.rint(scaled.clip(0, 255)).astype(np.uint8)
    return rows.reshape(*lead, *shape)


def key_names(value: Any) -> Any:
    """`image,state`, with or without brackets, as names; anything else stays as it is."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip() for name in value.strip("[] ").split(",") if name.strip())


def chosen_keys(known: Iterable[str], asked: Sequence[str]) -> list[str]:
    """Observation keys: all, those named, or all but those named with a '-' before them."""
    known = list(known)
    left_out = [name.removeprefix("-") for name in asked if name.startswith("-")]
    if left_out and len(left_out) < len(asked):
        raise ConfigError(
            f"The observation keys {', '.join(asked)} both choose and leave out.",
            "Name the keys to use, or each key to leave out with a '-' before it.",
        )
    named = left_out or list(asked)
    _require_known(named, known)
    chosen = [key for key in known if not asked or (key in named) != bool(left_out)]
    if not chosen:
        raise ConfigError("No observation key is left.", f"There are: {', '.join(known)}.")
    return chosen


def _require_known(keys: Iterable[str], known: Iterable[str], place: str = "") -> None:
    known = list(known)
    for key in keys:
        if key not in known:
            hint = f"{nearest(key, known)} There are: {', '.join(known)}."
            raise ConfigError(f"{place}There is no observation key {key!r}.", hint.strip())


def _holds(rows: NDArray[Any], spec: ArraySpec) -> bool:
    """Whether rows (…, *spec.shape) are of a space."""
    shape = spec.shape
    return rows.dtype == spec.dtype and rows.shape[rows.ndim - len(shape) :] == shape


def _obstacle(spec: ArraySpec) -> str:
    if spec.image_shape() is None:
        return "images are (H, W), (H, W, C) or (C, H, W) with 1, 3 or 4 channels"
    return "its space does not say which numbers are black and white"


def _remedy(spec: ArraySpec) -> str:
    if spec.image_shape() is None:
        return "Store one image per key"
    return (
        "Declare the bounds in the observation space, such as Box(0, 1, …), or say what is black "
        "and white (--set data.image_range=[0,1])"
    )


def _size(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape))
