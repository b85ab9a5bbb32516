"""Gymnasium spaces as plain data that JSON can represent: one `ArraySpec` per array."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmtk.errors import SpaceError

if TYPE_CHECKING:
    import gymnasium as gym

Kind = Literal["box", "discrete", "multi_discrete", "multi_binary"]
# A bound: one number for all elements, one per element (C order), or None for no bound.
Bound = float | int | None | tuple[float | int | None, ...]

DTYPES = frozenset(
    ["bool", "float16", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
KINDS = ("box", "discrete", "multi_discrete", "multi_binary")
MAX_ROW_BYTES = 64 * 2**20  # a row of one array; larger than a 4K RGB float frame
MAX_DIMS = 16
MIN_IMAGE_SIDE = 32  # pixels; smaller arrays are learned as vectors by default
CHANNELS = (1, 3, 4)  # of images
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
MAX_NAME = 64


def check_name(name: str, what: str) -> str:
    """Return `name` if it is safe as a file name and as a key of an object store."""
    if not NAME.fullmatch(name) or len(name) > MAX_NAME or ".." in name:
        raise SpaceError(
            f"{what} {name!r} is not a valid name.",
            f"Use 1 to {MAX_NAME} letters, digits, '_', '-' and '.', not starting with '.'.",
        )
    return name


def check_key(key: str, what: str) -> str:
    """Return `key` if each of its '/'-separated components is a safe name."""
    for component in key.split("/"):
        check_name(component, what)
        if component in {"zarr.json", "c"}:
            raise SpaceError(f"{what} {key!r} clashes with a file name of zarr.", "Rename it.")
    return key


@dataclass(frozen=True)
class ArraySpec:
    """The shape, dtype and bounds of one row of one array.

    Discrete spaces are represented by bounds: `Discrete(n, start)` is low = start and
    high = start + n − 1.
    """

    kind: Kind
    shape: tuple[int, ...]
    dtype: str
    low: Bound = None
    high: Bound = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SpaceError(f"Unknown kind of space {self.kind!r}.", f"Known: {', '.join(KINDS)}.")
        if self.dtype not in DTYPES:
            raise SpaceError(
                f"Arrays of dtype {self.dtype!r} cannot be stored.",
                f"Convert to one of: {', '.join(sorted(DTYPES))}.",
            )
        impossible = len(self.shape) > MAX_DIMS or any(size <= 0 for size in self.shape)
        if impossible or self.row_bytes > MAX_ROW_BYTES:
            raise SpaceError(
                f"A row of shape {self.shape} and dtype {self.dtype} cannot be stored.",
                f"Sizes must be positive, at most {MAX_DIMS} of them, "
                f"and a row at most {MAX_ROW_BYTES // 2**20} MiB.",
            )
        fits = _fits(self, self.low) and _fits(self, self.high)
        if not fits or (self.bound("low") > self.bound("high")).any():
            raise SpaceError(
                f"The bounds of a {self.kind} space of shape {self.shape} and dtype {self.dtype} "
                "do not fit it.",
                "Give None, one number, or one number per element, that the dtype can hold.",
            )

    @property
    def numbers(self) -> int:
        """The number of elements of a row."""
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * self.numbers

    @property
    def is_image(self) -> bool:
        """Whether rows are images: uint8 (H, W, C) of any size, other forms from 32×32 on.

        Other forms are (C, H, W) and (H, W), and other dtypes whose `image_range` is known.
        """
        plain = self.dtype == "uint8" and len(self.shape) == 3 and self.shape[-1] in CHANNELS
        shape = self.image_shape(1 if plain else MIN_IMAGE_SIDE)
        return shape is not None and self.image_range is not None

    @property
    def looks_like_image(self) -> bool:
        """Whether rows have the size of images, but another form or an unknown range."""
        return sum(side >= MIN_IMAGE_SIDE for side in self.shape) > 1 and not self.is_image

    def image_shape(self, smallest: int = 1) -> tuple[int, int, int] | None:
        """Height, width and channels of (H, W, C), (C, H, W) or (H, W); None for other shapes."""
        if self.kind not in ("box", "multi_binary") or len(self.shape) not in (2, 3):
            return None
        height, width, channels = (*self.shape, 1)[:3]
        if channels not in CHANNELS:
            channels, height, width = self.shape
        fits = channels in CHANNELS and min(height, width) >= smallest
        return (height, width, channels) if fits else None

    @property
    def image_range(self) -> tuple[float, float] | None:
        """The values of black and white, which are the declared bounds; None if unknown.

        For uint8 they are 0 and 255. Limits of other dtypes are not bounds, except those of bool
        and uint16.
        """
        if self.dtype == "uint8":
            return 0.0, 255.0
        low, high = float(self.bound("low").min()), float(self.bound("high").max())
        limits = _limits(np.dtype(self.dtype))
        exact = self.dtype in ("bool", "uint16") or self.kind == "multi_binary"
        bounded = high < limits[1] and (low > limits[0] or limits[0] == 0)
        return (low, high) if (exact or bounded) and low < high else None

    @property
    def n(self) -> int:
        """The number of values of a discrete space."""
        assert self.kind == "discrete", self
        assert isinstance(self.low, int), self
        assert isinstance(self.high, int), self
        return self.high - self.low + 1

    def bound(self, which: Literal["low", "high"]) -> NDArray[Any]:
        """The bound as an array of `shape`; unbounded elements are ±inf or the dtype's limit."""
        dtype = np.dtype(self.dtype)
        sign = -1 if which == "low" else 1
        limit: float | int
        if dtype.kind == "f":
            limit = sign * np.inf
        elif dtype.kind == "b":
            limit = sign > 0
        else:
            limit = int(np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max)
        value = self.low if which == "low" else self.high
        if not isinstance(value, tuple):
            return np.full(self.shape, limit if value is None else value, dtype)
        filled = [limit if element is None else element for element in value]
        return np.array(filled, dtype).reshape(self.shape)

    def first_outside(self, rows: NDArray[Any]) -> tuple[int, ...] | None:
        """The index in `rows` (n, …) of the first element outside of the bounds, or None.

        Floats may exceed a bound by a rounding error. NaN is inside of all bounds.
        """
        dtype = np.dtype(self.dtype)
        minimum, maximum = _limits(dtype) if dtype.kind in "iub" else (None, None)
        if not len(rows) or (self.low in (None, minimum) and self.high in (None, maximum)):
            return None
        low, high = self.bound("low"), self.bound("high")
        if dtype.kind == "f":
            low, high = _rounded(low, -1), _rounded(high, 1)
        if (rows.min(axis=0) >= low).all() and (rows.max(axis=0) <= high).all():
            return None
        beyond = np.argwhere((rows < low) | (rows > high))
        return tuple(beyond[0].tolist()) if len(beyond) else None

    def zeros(self, rows: int) -> NDArray[Any]:
        return np.zeros((rows, *self.shape), self.dtype)

    def to_json(self) -> dict[str, Any]:
        def plain(bound: Bound) -> Any:
            return list(bound) if isinstance(bound, tuple) else bound

        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "low": plain(self.low),
            "high": plain(self.high),
        }

    @classmethod
    def from_array(cls, rows: NDArray[Any]) -> ArraySpec:
        """The unbounded Box of `rows` (T+1, …)."""
        return cls("box", rows.shape[1:], rows.dtype.name)

    @classmethod
    def from_gymnasium(cls, space: gym.Space[Any]) -> ArraySpec:
        from gymnasium import spaces

        if isinstance(space, spaces.Box):
            low, high = _compact(space.low), _compact(space.high)
            return cls("box", tuple(space.shape), space.dtype.name, low, high)
        if isinstance(space, spaces.Discrete):
            start, n = int(space.start), int(space.n)
            return cls("discrete", (), np.dtype(space.dtype).name, start, start + n - 1)
        if isinstance(space, spaces.MultiDiscrete):
            first = np.asarray(space.start)
            last = first + space.nvec - 1
            dtype = np.dtype(space.dtype).name
            low = tuple(int(value) for value in first.ravel())
            high = tuple(int(value) for value in last.ravel())
            return cls("multi_discrete", tuple(space.nvec.shape), dtype, low, high)
        if isinstance(space, spaces.MultiBinary):
            return cls("multi_binary", tuple(space.shape), np.dtype(space.dtype).name, 0, 1)
        raise SpaceError(
            f"{type(space).__name__} spaces cannot be stored: their values have no fixed shape.",
            "Supported: Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these. "
            "Wrap the environment so that it returns one of them.",
        )

    def to_gymnasium(self) -> gym.Space[Any]:
        from gymnasium import spaces

        low, high = self.bound("low"), self.bound("high")
        if self.kind == "discrete":
            return spaces.Discrete(self.n, start=int(low), dtype=np.dtype(self.dtype).type)
        if self.kind == "multi_discrete":
            dtype = np.dtype(self.dtype).type
            return spaces.MultiDiscrete(high - low + 1, dtype=dtype, start=low)
        if self.kind == "multi_binary":
            shape = self.shape
            return spaces.MultiBinary(shape[0] if len(shape) == 1 else list(shape))
        return spaces.Box(low, high, self.shape, np.dtype(self.dtype).type)

    def __str__(self) -> str:
        shape = "×".join(map(str, self.shape)) or "scalar"
        if self.kind == "discrete":
            start = f", from {self.low}" if self.low else ""
            return f"discrete({self.n}{start})"
        if self.kind == "multi_discrete":
            sizes = (self.bound("high") - self.bound("low") + 1).ravel().tolist()
            return f"multi_discrete({', '.join(map(str, sizes))})"
        return f"{self.kind} {shape} {self.dtype}"


def _fits(spec: ArraySpec, bound: Bound) -> bool:
    """Whether a bound has the right number of values, all representable in the dtype."""
    values = bound if isinstance(bound, tuple) else (bound,)
    if isinstance(bound, tuple) and len(bound) != spec.numbers:
        return False
    if spec.kind == "discrete" and (spec.shape or type(bound) is not int):
        return False
    if spec.kind != "box" and np.dtype(spec.dtype).kind == "f":
        return False
    if spec.kind == "multi_discrete" and not all(type(value) is int for value in values):
        return False
    low, high = _limits(np.dtype(spec.dtype))
    return all(v is None or (isinstance(v, int | float) and low <= v <= high) for v in values)


def _limits(dtype: np.dtype[Any]) -> tuple[float | int, float | int]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _rounded(bound: NDArray[Any], sign: int) -> NDArray[np.float64]:
    """Widen a bound by the rounding error of its dtype."""
    slack = max(1e-5, 4 * float(np.finfo(bound.dtype).eps))
    wide = bound.astype(np.float64)
    size = np.maximum(1, np.abs(np.where(np.isfinite(wide), wide, 0)))
    with np.errstate(over="ignore"):
        return np.asarray(wide + sign * slack * size)


def _compact(bound: NDArray[Any]) -> Bound:
    """A bound as None if infinite everywhere, as one number if uniform, else as a tuple."""
    if bound.dtype.kind == "f":
        values = [None if np.isinf(value) else float(value) for value in bound.ravel()]
    else:
        values = [int(value) for value in bound.ravel()]
    if values and all(value == values[0] for value in values):
        return values[0]
    return tuple(values)


# The nesting of a space: a leaf is the key of its array, a Dict is {"dict": {name: structure}},
# a Tuple is {"tuple": [structure, …]}. A space without nesting has the key "image" or "state".
Structure = str | dict[str, Any]


def leaf_spaces(space: gym.Space[Any]) -> tuple[Structure, dict[str, gym.Space[Any]]]:
    """The structure of an observation space and the space of each leaf, of any type."""
    leaves: dict[str, gym.Space[Any]] = {}

    def visit(node: gym.Space[Any], prefix: str) -> Structure:
        from gymnasium import spaces

        if isinstance(node, spaces.Dict):
            children = {name: visit(sub, f"{prefix}{name}/") for name, sub in node.spaces.items()}
            return {"dict": children}
        if isinstance(node, spaces.Tuple):
            subs = enumerate(node.spaces)
            return {"tuple": [visit(sub, f"{prefix}_index_{i}/") for i, sub in subs]}
        key = prefix.rstrip("/") or ("image" if node.dtype == np.uint8 and node.shape else "state")
        leaves[check_key(key, "The observation key")] = node
        return key

    structure = visit(space, "")
    if not leaves:
        raise SpaceError(f"The observation space {space} has no array.", "Add a key to it.")
    return structure, leaves


def flatten_space(space: gym.Space[Any]) -> tuple[Structure, dict[str, ArraySpec]]:
    """The structure of an observation space and the `ArraySpec` of each leaf."""
    structure, leaves = leaf_spaces(space)
    specs: dict[str, ArraySpec] = {}
    errors: dict[str, SpaceError] = {}
    for key, leaf in leaves.items():
        try:
            specs[key] = ArraySpec.from_gymnasium(leaf)
        except SpaceError as error:
            errors[key] = error
    if not errors:
        return structure, specs
    if not specs:
        raise next(iter(errors.values()))
    lines = [f"  {key}: {error.message}" for key, error in errors.items()]
    keys = ",".join(f"-{key}" for key in errors)
    raise SpaceError(
        "Observation keys that cannot be stored:\n" + "\n".join(lines),
        f"Exclude them: obs_keys={keys!r}.",
    )


def unflatten_space(structure: Structure, leaves: Mapping[str, ArraySpec]) -> gym.Space[Any]:
    """The inverse of `flatten_space`."""
    from gymnasium import spaces

    if isinstance(structure, str):
        return leaves[structure].to_gymnasium()
    if "dict" in structure:
        children = structure["dict"].items()
        return spaces.Dict({name: unflatten_space(sub, leaves) for name, sub in children})
    return spaces.Tuple([unflatten_space(sub, leaves) for sub in structure["tuple"]])


def flatten_value(structure: Structure, value: Any) -> dict[str, Any]:
    """The leaves of one observation, by key."""
    if isinstance(structure, str):
        return {structure: value}
    leaves: dict[str, Any] = {}
    if "dict" in structure:
        for name, sub in structure["dict"].items():
            leaves |= flatten_value(sub, value[name])
    else:
        for element, sub in zip(value, structure["tuple"], strict=True):
            if sub is not None:  # a key that is not selected
                leaves |= flatten_value(sub, element)
    return leaves


def unflatten_value(structure: Structure, leaves: Mapping[str, Any]) -> Any:
    """The inverse of `flatten_value`."""
    if isinstance(structure, str):
        return leaves[structure]
    if "dict" in structure:
        return {name: unflatten_value(sub, leaves) for name, sub in structure["dict"].items()}
    return tuple(unflatten_value(sub, leaves) for sub in structure["tuple"])
