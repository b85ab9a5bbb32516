"""`Episode`: one whole episode in memory, and its provenance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from wmtk.datasets.schema import Schema
from wmtk.datasets.storage.packed_rows import PackedRows, blocks_of
from wmtk.documents import Document, FreeForm, Text
from wmtk.errors import BoundsError, EpisodeError
from wmtk.reprs import brief_repr
from wmtk.spaces import ArraySpec


@dataclass(frozen=True)
class Provenance:
    """The environment, policy and code that an episode was collected with.

    `extra` is stored unchanged.

    Example:
        >>> from wmtk.datasets import Dataset
        >>> Dataset.open("catch.zarr")[0].provenance.env_id
        'wmtk/Catch-v0'
    """

    env_id: str = ""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    env_versions: Mapping[str, str] = field(default_factory=dict)
    policy: str = ""
    checkpoint: str = ""  # hash of the policy's weights; empty for a policy without weights
    code_version: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Provenance:
        """Raises ValueError unless the fields have their types."""
        return ProvenanceRecord.model_validate(data).value()


class ProvenanceRecord(Document):
    """`Provenance` as it is stored."""

    env_id: Text = ""
    env_kwargs: FreeForm = Field(default_factory=dict)
    env_versions: FreeForm = Field(default_factory=dict)
    policy: Text = ""
    checkpoint: Text = ""
    code_version: Text = ""
    extra: FreeForm = Field(default_factory=dict)

    @classmethod
    def of(cls, provenance: Provenance) -> ProvenanceRecord:
        return cls.model_validate(provenance.to_json())

    def value(self) -> Provenance:
        return Provenance(**vars(self))


@dataclass(frozen=True)
class Episode:
    """T+1 rows of every array, aligned as `schema.ALIGNMENT` states.

    Example:
        >>> from wmtk.datasets import Dataset
        >>> episode = Dataset.open("catch.zarr")[0]
        >>> episode.length, episode.total_reward, episode.action.shape
        (79, -5.0, (80,))
    """

    # Each (T+1, …). In a long episode that was just collected, those of `obs` and `info` may be
    # `PackedRows`; `unpacked` has arrays only.
    obs: Mapping[str, NDArray[Any]]
    action: NDArray[Any]  # (T+1, …), row 0 zero
    reward: NDArray[Any]  # (T+1,), row 0 zero
    terminated: bool
    truncated: bool
    info: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    seed: int | None = None
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        # Environments return numpy scalars, which JSON cannot store.
        object.__setattr__(self, "terminated", _flag("terminated", self.terminated))
        object.__setattr__(self, "truncated", _flag("truncated", self.truncated))
        if self.seed is not None:
            object.__setattr__(self, "seed", int(self.seed))

    @property
    def length(self) -> int:
        """T, the number of agent steps."""
        return len(self.reward) - 1

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return brief_repr(self, length=self.length)

    @property
    def total_reward(self) -> float:
        return float(np.sum(self.reward, dtype=np.float64))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The stored arrays by path, in the order of `Schema.arrays`."""
        last = np.arange(len(self.reward)) == self.length
        return {
            **{f"obs/{key}": rows for key, rows in self.obs.items()},
            "action": self.action,
            "reward": self.reward,
            "terminated": last & self.terminated,
            "truncated": last & self.truncated,
            **{f"info/{key}": rows for key, rows in self.info.items()},
        }

    @property
    def id(self) -> str:
        """A hash of the content: equal episodes have equal ids, wherever they are stored."""
        digest = hashlib.sha256()
        for path, rows in sorted(self.arrays().items()):
            digest.update(f"{path}:{rows.dtype.name}:{rows.shape};".encode())
            for block in blocks_of(rows):
                little = np.ascontiguousarray(block, rows.dtype.newbyteorder("<"))
                digest.update(little.view(np.uint8).data.cast("B"))
        return digest.hexdigest()[:16]

    def unpacked(self) -> Episode:
        """The episode with all rows as uncompressed arrays."""
        obs = {key: np.asarray(rows) for key, rows in self.obs.items()}
        info = {key: np.asarray(rows) for key, rows in self.info.items()}
        return replace(self, obs=obs, info=info)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], seed: int | None, provenance: Provenance
    ) -> Episode:
        """The inverse of `arrays`."""

        def group(prefix: str) -> dict[str, NDArray[Any]]:
            return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

        return cls(
            obs=group("obs/"),
            action=arrays["action"],
            reward=arrays["reward"],
            terminated=bool(arrays["terminated"][-1]),
            truncated=bool(arrays["truncated"][-1]),
            info=group("info/"),
            seed=seed,
            provenance=provenance,
        )

    @classmethod
    def from_transitions(
        cls,
        schema: Schema,
        obs: Sequence[Mapping[str, Any]],
        actions: Sequence[Any],
        rewards: Sequence[float],
        *,
        terminated: bool,
        truncated: bool,
        infos: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
        provenance: Provenance | None = None,
    ) -> Episode:
        """Create an episode from lists: T+1 observations and infos, T actions and rewards."""
        for name, values in (("actions", actions), ("rewards", rewards)):
            no_rows = isinstance(values, str | bytes | Mapping | Set)
            if no_rows or not hasattr(values, "__len__") or getattr(values, "shape", None) == ():
                raise EpisodeError(
                    f"{name} is a {type(values).__name__}, not a sequence.",
                    f"Pass {name} as a list or an array of T values, one per step.",
                )
        _require_rows("obs", obs, schema.obs)
        _require_rows("infos", infos, schema.info)
        steps = len(actions)
        if len(obs) != steps + 1 or len(rewards) != steps:
            raise EpisodeError(
                f"{len(obs)} observations, {steps} actions and {len(rewards)} rewards do "
                "not make an episode.",
                "An episode of T steps has T+1 observations, T actions and T rewards.",
            )
        action = schema.action.zeros(steps + 1)
        reward = schema.reward.zeros(steps + 1)
        if steps:
            action[1:] = _stack("action", actions, schema.action)
            reward[1:] = _stack("reward", rewards, schema.reward)
        return cls(
            obs={
                key: _stack(f"obs/{key}", [row[key] for row in obs], spec)
                for key, spec in schema.obs.items()
            },
            action=action,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info={
                key: _stack(f"info/{key}", [row[key] for row in infos], spec)
                for key, spec in schema.info.items()
            },
            seed=seed,
            provenance=provenance or Provenance(),
        )

    def check(self, schema: Schema) -> None:
        """Raise EpisodeError, with array and step, unless the episode fits the schema."""
        self.check_form(schema)
        self.check_bounds(schema)

    def check_bounds(self, schema: Schema) -> None:
        """Raise BoundsError if an action or an observation is beyond its declared bounds."""
        for error in self.breaches(schema):
            raise error

    def breaches(self, schema: Schema) -> Iterator[BoundsError]:
        """For each array with values beyond its declared bounds, an error for the first one."""
        arrays = self.arrays()
        for path, spec in schema.arrays():
            first = 0
            for block in blocks_of(arrays[path]) if spec.kind == "box" else ():
                if error := _breach(path, block, spec, first):
                    yield error
                    break
                first += len(block)

    def check_form(self, schema: Schema) -> None:
        """`check` without the bounds of boxes, which older versions did not check."""
        if not isinstance(self.reward, np.ndarray) or self.reward.ndim != 1:
            raise EpisodeError(
                f"reward is {type(self.reward).__name__} {np.shape(self.reward)}, not T+1 numbers.",
                "Pass one reward per row, as a numpy array.",
            )
        rows = len(self.reward)
        if self.length < 1:
            raise EpisodeError(
                f"An episode needs at least one step, this one has {max(self.length, 0)}.",
                "Leave out episodes that end before the first action.",
            )
        arrays = self.arrays()
        declared = dict(schema.arrays())
        if arrays.keys() != declared.keys():
            missing = sorted(declared.keys() - arrays.keys())
            unknown = sorted(arrays.keys() - declared.keys())
            raise EpisodeError(
                f"The episode's arrays are not the dataset's: missing {missing or 'none'}, "
                f"unknown {unknown or 'none'}.",
                "Create the dataset with the schema of these episodes.",
            )
        for path, spec in declared.items():
            _check_array(path, arrays[path], spec, rows)
        self._check_record()

    def _check_record(self) -> None:
        """Check the values that are stored as JSON: return, seed and provenance."""
        with np.errstate(over="ignore"):
            total = self.total_reward
        if not np.isfinite(total):
            raise EpisodeError(
                f"The rewards are finite, but their sum is {total}.",
                "The episode was not stored. Correct the environment, or drop such episodes.",
            )
        if self.seed is not None and not isinstance(self.seed, int):
            raise EpisodeError(
                f"The seed {self.seed!r} is not an integer.", "Pass an integer or None."
            )
        try:
            json.dumps(self.provenance.to_json(), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise EpisodeError(
                f"The provenance cannot be stored as JSON: {error}.",
                "Use strings, finite numbers, lists and dictionaries only.",
            ) from error


def _require_rows(name: str, rows: Any, specs: Mapping[str, ArraySpec]) -> None:
    """Raise unless observations or infos are one dictionary per row with the schema's keys."""
    if not specs:
        return
    keys = ", ".join(map(repr, specs))
    fix = f"Pass one dictionary per row, with the keys {keys}"
    if len(specs) == 1:
        fix += f": [{{{keys}: row}} for row in {name}]"
    if isinstance(rows, Mapping) or not hasattr(rows, "__len__"):
        raise EpisodeError(f"{name} is a {type(rows).__name__}, not a sequence.", f"{fix}.")
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            what = f"an array of shape {row.shape}" if hasattr(row, "shape") else repr(row)
            raise EpisodeError(f"{name}[{number}] is {what}, not a dictionary.", f"{fix}.")
        if missing := [key for key in specs if key not in row]:
            raise EpisodeError(f"{name}[{number}] has no key {missing[0]!r}.", f"{fix}.")


def _flag(name: str, value: Any) -> bool:
    """A flag as a bool: one value for the episode, not one per step."""
    if np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "biuf":
        what = f"has shape {np.shape(value)}" if np.ndim(value) else f"is {value!r}"
        raise EpisodeError(f"{name} {what}.", "Pass one bool for the whole episode.")
    return bool(value)


def _stack(path: str, values: Sequence[Any], spec: ArraySpec) -> NDArray[Any]:
    """Stack values into rows; raises EpisodeError unless they have the declared form."""
    for step, value in enumerate(values):
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise EpisodeError(f"{path} at step {step} is not an array: {error}") from error
        same_kind = np.can_cast(array.dtype, spec.dtype, "same_kind")
        plain = isinstance(value, bool | int | float) or (array.ndim == 0 and same_kind)
        if array.shape != spec.shape or not (plain or array.dtype == spec.dtype):
            raise EpisodeError(
                f"{path} at step {step} has shape {array.shape} and dtype {array.dtype}, "
                f"but the dataset declares {spec.shape} and {spec.dtype}.",
                "The environment must return values of its declared space.",
            )
        if array.dtype != spec.dtype and not _fits(array, np.dtype(spec.dtype)):
            raise EpisodeError(
                f"{path} at step {step} is {value!r}, which {spec.dtype} cannot hold.",
                "Round or convert the value first.",
            )
    return np.asarray(values, spec.dtype).reshape(len(values), *spec.shape)


def _fits(value: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Whether this dtype can hold a single value exactly; floats may be rounded."""
    if dtype.kind == "f":
        return value.dtype.kind in "biuf"
    with np.errstate(invalid="ignore"):
        return value.dtype.kind in "biuf" and bool(value.astype(dtype) == value)


def _check_array(path: str, array: Any, spec: ArraySpec, rows: int) -> None:
    if not isinstance(array, np.ndarray | PackedRows):
        raise EpisodeError(
            f"{path} is a {type(array).__name__}, not a numpy array.", "Convert it with np.asarray."
        )
    if array.shape != (rows, *spec.shape) or array.dtype.name != spec.dtype:
        raise EpisodeError(
            f"{path} has shape {array.shape} and dtype {array.dtype.name}, but {rows} rows of "
            f"shape {spec.shape} and dtype {spec.dtype} were expected.",
            "Arrays must have exactly the declared shape and dtype, with T+1 rows.",
        )
    first = 0
    for block in blocks_of(array):
        _check_values(path, block, spec, first)
        first += len(block)


def _check_values(path: str, array: NDArray[Any], spec: ArraySpec, first: int) -> None:
    """Check rows of an array from row number `first` on."""
    rows = len(array)
    if array.dtype.kind == "f" and not path.startswith("info/"):
        bad = ~np.isfinite(array).reshape(rows, -1).all(axis=1)
        # Observations may be infinite (a sensor out of range), never NaN.
        if path.startswith("obs/") and bad.any():
            bad = np.isnan(array).reshape(rows, -1).any(axis=1)
        if bad.any():
            step = int(np.argmax(bad))
            raise EpisodeError(
                f"{path} is not a finite number at step {first + step}: {array[step]}.",
                "The episode was not stored. Correct the environment, or drop such episodes.",
            )
    if path in {"action", "reward"} and array[0].any():
        raise EpisodeError(
            f"{path} at row 0 is {array[0]}, but nothing led to the reset observation.",
            "Row t holds the action that led to observation t: shift by one, row 0 is zero.",
        )
    if spec.kind != "box":
        begin = _first_checked(path)
        outside = spec.first_outside(array[begin:])
        if outside is not None:
            step = outside[0] + begin
            raise EpisodeError(
                f"{path} at step {first + step} is {array[step]}, outside {spec}.",
                "Check the action space that the dataset was created with.",
            )


def _first_checked(path: str) -> int:
    return int(path == "action")  # row 0 has no action


def _breach(path: str, array: NDArray[Any], spec: ArraySpec, first: int) -> BoundsError | None:
    begin = _first_checked(path)
    outside = spec.first_outside(array[begin:])
    if outside is None:
        return None
    step, element = outside[0] + begin, outside[1:]
    low, high = spec.bound("low")[element], spec.bound("high")[element]
    where = f", element {', '.join(map(str, element))}," if element else ""
    if path == "action":
        hint = "Clip the actions to the bounds, or create the dataset with wider ones."
    else:
        hint = (
            "The environment violates its observation space. Declare the true bounds there "
            "(gymnasium.wrappers.TransformObservation takes a new space), or clip the observations."
        )
    return BoundsError(
        f"{path} at step {first + step}{where} is {array[step][element]}, beyond its declared "
        f"bounds {low} to {high}.",
        hint,
        key=path,
    )
