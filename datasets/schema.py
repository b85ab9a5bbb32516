"""`Schema`: the arrays of every episode of a dataset, their types and their alignment."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from wmtk.documents import Document, Items, problems
from wmtk.errors import SchemaMismatchError, SpaceError
from wmtk.reprs import brief
from wmtk.spaces import ArraySpec, Kind, Structure, check_key

# The definition of the row alignment; only converters handle those of other libraries.
ALIGNMENT = (
    "An episode of T steps has T+1 rows. Row t holds observation o_t, the action that led to it, "
    "and the reward and the terminated and truncated flags received on arriving at it. "
    "Row 0 holds the reset observation, a zero action, a zero reward and false flags."
)
FLAG = ArraySpec("box", (), "bool", 0, 1)
REWARD = ArraySpec("box", (), "float64")
MAX_KEYS = 256


@dataclass(frozen=True)
class Schema:
    """The arrays of a dataset: obs/<key>, action, reward, terminated, truncated, info/<key>.

    Example:
        >>> from wmtk.datasets import Schema
        >>> from wmtk.spaces import ArraySpec
        >>> schema = Schema(
        ...     obs={"image": ArraySpec("box", (64, 64, 1), "uint8", 0, 255)},
        ...     action=ArraySpec("discrete", (), "int64", 0, 5),
        ... )
        >>> schema
        Schema(obs={'image': 'box 64×64×1 uint8'}, action='discrete(6)')
    """

    obs: Mapping[str, ArraySpec]
    action: ArraySpec
    reward: ArraySpec = REWARD
    info: Mapping[str, ArraySpec] = field(default_factory=dict)
    # How the observation keys make up the environment's observation (see wmtk.spaces).
    structure: Structure | None = None

    def __post_init__(self) -> None:
        if not self.obs:
            raise SpaceError("A dataset needs at least one observation key.", "Add one.")
        if len(self.obs) + len(self.info) > MAX_KEYS:
            raise SpaceError(
                f"{len(self.obs) + len(self.info)} observation and info keys are too many.",
                f"At most {MAX_KEYS} can be stored: leave some out or join them into one array.",
            )
        for group, keys in (("observation", self.obs), ("info", self.info)):
            for key in keys:
                check_key(key, f"The {group} key")
                if clash := [other for other in keys if key.startswith(f"{other}/")]:
                    raise SpaceError(
                        f"The {group} key {key!r} lies inside {clash[0]!r}, which is an array.",
                        "Rename one of the two.",
                    )
        if self.reward.shape or self.reward.dtype not in {"float32", "float64"}:
            raise SpaceError(f"Rewards must be float32 or float64 scalars, not {self.reward}.")
        if self.structure is None:
            structure = {"dict": {key: key for key in self.obs}}
            only = next(iter(self.obs))
            bare = len(self.obs) == 1 and only in {"image", "state"}
            object.__setattr__(self, "structure", only if bare else structure)
        if sorted(_leaves(self.structure)) != sorted(self.obs):
            raise SpaceError(
                "The structure of the observations does not name each of their keys once.",
                f"Their keys: {', '.join(self.obs)}.",
            )

    @property
    def spaces(self) -> str:
        """Observations and actions on one line, for representations."""
        obs = {key: str(spec) for key, spec in self.obs.items()}
        return f"obs={brief(obs)}, action={brief(str(self.action))}"

    def __repr__(self) -> str:
        info = f", info={brief(list(self.info))}" if self.info else ""
        return f"Schema({self.spaces}{info})"

    def arrays(self) -> Iterator[tuple[str, ArraySpec]]:
        """Every stored array: its path inside a part and the specification of its rows."""
        for key, spec in self.obs.items():
            yield f"obs/{key}", spec
        yield "action", self.action
        yield "reward", self.reward
        yield "terminated", FLAG
        yield "truncated", FLAG
        for key, spec in self.info.items():
            yield f"info/{key}", spec

    @property
    def row_bytes(self) -> int:
        return sum(spec.row_bytes for _, spec in self.arrays())

    def to_json(self) -> dict[str, Any]:
        return {
            "obs": {key: spec.to_json() for key, spec in self.obs.items()},
            "action": self.action.to_json(),
            "reward": self.reward.to_json(),
            "info": {key: spec.to_json() for key, spec in self.info.items()},
            "structure": self.structure,
        }

    @classmethod
    def from_json(cls, data: Any) -> Schema:
        try:
            return SchemaDocument.model_validate(data).value()
        except (ValidationError, RecursionError) as error:
            what = "Not the description of a dataset's arrays"
            raise SpaceError(f"{what}: {problems(error)}") from error

    def only(self, keys: Iterable[str]) -> Schema:
        """The schema with some of the observation keys."""
        obs = {key: self.obs[key] for key in keys}
        return replace(self, obs=obs, structure=_without(self.structure, obs))

    def require_same_arrays(
        self, other: Schema, what: str, *, obs: Container[str] | None = None
    ) -> None:
        """Raise SchemaMismatchError unless both have the same arrays (bounds may differ).

        With `obs`, only these observation keys are compared.
        """

        def shapes(schema: Schema) -> dict[str, tuple[tuple[int, ...], str]]:
            return {
                name: (spec.shape, spec.dtype)
                for name, spec in schema.arrays()
                if obs is None or not name.startswith("obs/") or name.removeprefix("obs/") in obs
            }

        first, second = shapes(self), shapes(other)
        differing = sorted(k for k in first.keys() | second.keys() if first.get(k) != second.get(k))
        if differing:
            lines = [
                f"  {name}: {first.get(name, 'absent')} against {second.get(name, 'absent')}"
                for name in differing
            ]
            raise SchemaMismatchError(
                f"{what} differ in their arrays:\n" + "\n".join(lines),
                "Only datasets with equal keys, shapes and dtypes can be joined.",
            )


class SpecDocument(Document):
    """`ArraySpec` as it is stored."""

    kind: Kind
    shape: Items[int]
    dtype: str
    low: Items[int | float | None] | int | float | None = None
    high: Items[int | float | None] | int | float | None = None

    def value(self) -> ArraySpec:
        return ArraySpec(**vars(self))


class SchemaDocument(Document):
    """`Schema` as it is stored."""

    obs: dict[str, SpecDocument]
    action: SpecDocument
    reward: SpecDocument
    info: dict[str, SpecDocument]
    structure: Any  # checked by `Schema`

    def value(self) -> Schema:
        return Schema(
            obs={key: spec.value() for key, spec in self.obs.items()},
            action=self.action.value(),
            reward=self.reward.value(),
            info={key: spec.value() for key, spec in self.info.items()},
            structure=self.structure,
        )


def _without(structure: Any, keys: Container[str]) -> Any:
    """A structure without the leaves that are not in `keys`; None takes their place in tuples."""
    if isinstance(structure, str):
        return structure if structure in keys else None
    if "dict" in structure:
        inner = {name: _without(sub, keys) for name, sub in structure["dict"].items()}
        return {"dict": {name: sub for name, sub in inner.items() if sub is not None}}
    return {"tuple": [_without(sub, keys) for sub in structure["tuple"]]}


def _leaves(structure: Any) -> Iterator[str]:
    """The keys in a structure; iterative, as files may nest structures deeply."""
    nodes = [structure]
    while nodes:
        node = nodes.pop()
        if node is None and node is not structure:  # left out of a tuple
            continue
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict) and isinstance(node.get("dict"), dict) and len(node) == 1:
            nodes += node["dict"].values()
        elif isinstance(node, dict) and isinstance(node.get("tuple"), list) and len(node) == 1:
            nodes += node["tuple"]
        else:
            raise SpaceError(f"{node!r} is not a structure of observations.", "Use Dict and Tuple.")
