"""Convert observations to model inputs: selected keys, and images of one size.

All model inputs pass through `ObsCodec`: training batches, validation, acting, `wmtk.load` and the
viewers.
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
from wmtk.spaces import MIN_IMAGE_SIDE, ArraySpec

Bytes = NDArray[np.uint8]

IMAGE_SIZE = 64  # height and width of images in the paper
MIN_NOTED = 7  # pixels; larger arrays that may be images get a note if learned as vectors
PIECE = 256  # frames per conversion, to limit the memory


class ObsCodec:
    """Converts rows of a dataset or an environment to model inputs, by key.

    `sources` are the spaces of the selected keys as stored, `specs` those of the model inputs:
    images as uint8 (image_size, image_size, C), images that are learned as vectors flattened,
    everything else unchanged.
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
        """`image_range` is (black, white) for images whose space has no bounds."""
        if image_range is not None and not image_range[0] < image_range[1]:
            raise ConfigError(
                f"data.image_range {list(image_range)} is not increasing.",
                "Give black, then white.",
            )
        self.sources = {
            key: _with_range(obs[key], image_range) for key in chosen_keys(obs, obs_keys)
        }
        for name, keys in {"data.as_image": as_image, "data.as_vector": as_vector}.items():
            _require_known(keys, obs, f"{name}: ")
        if overlap := set(as_image) & set(as_vector):
            raise ConfigError(
                f"data.as_image and data.as_vector both name {sorted(overlap)[0]!r}.",
                "Name each key in one of them.",
            )
        self.image_size = image_size
        self.specs: dict[str, ArraySpec] = {}
        self.notes: list[str] = []  # how images are converted
        self._scalers: dict[tuple[int, int], AreaScaler] = {}
        for key, spec in self.sources.items():
            self.specs[key] = self._model_spec(key, spec, key in as_image, key in as_vector)

    def __repr__(self) -> str:
        return f"ObsCodec({brief({key: str(spec) for key, spec in self.specs.items()})})"

    def _model_spec(self, key: str, spec: ArraySpec, as_image: bool, as_vector: bool) -> ArraySpec:
        """The space of a key as a model input."""
        side = min((spec.image_shape() or (0, 0))[:2])
        small = side < MIN_IMAGE_SIDE
        if as_vector or (small and not as_image and (spec.is_image or side >= MIN_NOTED)):
            return self._as_vector(key, spec, small=small and not as_vector)
        if as_image or spec.is_image:
            return self._as_image(key, spec)
        if spec.looks_like_image:
            raise ConfigError(
                f"{key!r} ({spec}) has the size of images, but {_obstacle(spec)}.",
                f"{_remedy(spec)}; exclude it (obs_keys='-{key}'), or learn it as a vector of "
                f"{spec.numbers:,} numbers (data.as_vector={key}).",
            )
        return spec

    def _as_vector(self, key: str, spec: ArraySpec, *, small: bool) -> ArraySpec:
        if small:
            self.notes.append(
                f"{key}: {_size(spec.shape)} {spec.dtype} is learned as a vector of "
                f"{spec.numbers} numbers; data.as_image={key} learns it as an image."
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
        result = ArraySpec("box", (size, size, channels), "uint8", 0, 255)
        if (spec.shape, spec.dtype) == (result.shape, result.dtype):
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
        return result

    def __call__(self, obs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Convert the selected keys, each from (…, stored shape) to (…, model shape).

        Rows that are model inputs already are returned unchanged.
        """
        return {key: self.rows(key, obs[key]) for key in self.specs}

    def rows(self, key: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Convert the rows of one key."""
        source, spec = self.sources[key], self.specs[key]
        if not self.changes(key):
            return rows
        if not _has_spec(rows, source):
            if _has_spec(rows, spec):
                return rows
            raise SchemaMismatchError(
                f"Rows of {key!r} have shape {rows.shape} and dtype {rows.dtype.name}; the model "
                f"takes {source}.",
                "The data must have the spaces that the model was trained on.",
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
        """Scale (N, H, W, C) to (N, size, size, C), frame by frame, independently of N."""
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
    """The keys of images; with `plain` only those stored as uint8 (H, W) or (H, W, C)."""
    keys = []
    for key, spec in obs.items():
        shape = spec.image_shape(MIN_IMAGE_SIDE)
        bytes_already = spec.dtype == "uint8" and spec.shape in (shape, (shape or ())[:2])
        if spec.is_image and shape is not None and (bytes_already or not plain):
            keys.append(key)
    return keys


def to_bytes(spec: ArraySpec, rows: NDArray[Any], key: str = "image") -> Bytes:
    """Convert images (…, stored shape) of any supported form to uint8 (…, H, W, C)."""
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
                f"Images {key!r} contain NaN.",
                "Correct the environment or the data.",
            )
        rows = np.rint(scaled.clip(0, 255)).astype(np.uint8)
    return rows.reshape(*lead, *shape)


def key_names(value: Any) -> Any:
    """Split a text such as `image,state` or `[image, state]`; other values are returned as is."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip() for name in value.strip("[] ").split(",") if name.strip())


def chosen_keys(known: Iterable[str], selection: Sequence[str]) -> list[str]:
    """Select observation keys: all, those named, or all except those named with a leading '-'."""
    known = list(known)
    excluded = [name.removeprefix("-") for name in selection if name.startswith("-")]
    if excluded and len(excluded) < len(selection):
        raise ConfigError(
            f"The observation keys {', '.join(selection)} mix selection and exclusion.",
            "Name the keys to use, or the keys to exclude with a leading '-'.",
        )
    named = excluded or list(selection)
    _require_known(named, known)
    chosen = [key for key in known if not selection or (key in named) != bool(excluded)]
    if not chosen:
        raise ConfigError("No observation key is left.", f"Keys: {', '.join(known)}.")
    return chosen


def _require_known(keys: Iterable[str], known: Iterable[str], place: str = "") -> None:
    known = list(known)
    for key in keys:
        if key not in known:
            hint = f"{nearest(key, known)} Keys: {', '.join(known)}."
            raise ConfigError(f"{place}There is no observation key {key!r}.", hint.strip())


def _has_spec(rows: NDArray[Any], spec: ArraySpec) -> bool:
    """Whether rows are (…, *spec.shape) of the dtype of a space."""
    shape = spec.shape
    return rows.dtype == spec.dtype and rows.shape[rows.ndim - len(shape) :] == shape


def _obstacle(spec: ArraySpec) -> str:
    if spec.image_shape() is None:
        return "images are (H, W), (H, W, C) or (C, H, W) with 1, 3 or 4 channels"
    return "its space has no bounds, so black and white are unknown"


def _remedy(spec: ArraySpec) -> str:
    if spec.image_shape() is None:
        return "Store one image per key"
    return (
        "Declare the bounds in the observation space, such as Box(0, 1, …), or give black and "
        "white (data.image_range=[0,1])"
    )


def _size(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape))
