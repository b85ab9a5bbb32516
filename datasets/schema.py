"""What every episode of a dataset looks like: its arrays, their types, their alignment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wmtk.errors import SchemaMismatchError, SpaceError
from wmtk.spaces import ArraySpec, Structure, check_key

# The one statement of the row alignment; only converters know other libraries' alignments.
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
    """The arrays of a dataset: obs/<key>, action, reward, terminated, truncated, info/<key>."""

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
    def from_json(cls, data: Mapping[str, Any]) -> Schema:
        try:
            return cls(
                obs={key: ArraySpec.from_json(spec) for key, spec in data["obs"].items()},
                action=ArraySpec.from_json(data["action"]),
                reward=ArraySpec.from_json(data["reward"]),
                info={key: ArraySpec.from_json(spec) for key, spec in data["info"].items()},
                structure=data["structure"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise SpaceError(f"Not the description of a dataset's arrays ({error!r}).") from error

    def require_same_arrays(self, other: Schema, what: str) -> None:
        """Raise unless the two hold the same arrays (bounds may differ)."""

        def shapes(schema: Schema) -> dict[str, tuple[tuple[int, ...], str]]:
            return {name: (spec.shape, spec.dtype) for name, spec in schema.arrays()}

        ours, theirs = shapes(self), shapes(other)
        differing = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
        if differing:
            lines = [
                f"  {name}: {ours.get(name, 'absent')} against {theirs.get(name, 'absent')}"
                for name in differing
            ]
            raise SchemaMismatchError(
                f"{what} differ in their arrays:\n" + "\n".join(lines),
                "Only datasets with equal keys, shapes and dtypes can be joined.",
            )


def _leaves(structure: Any) -> Iterator[str]:
    """The keys that a structure is made of; without recursion, however deep a file nests it."""
    nodes = [structure]
    while nodes:
        node = nodes.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict) and isinstance(node.get("dict"), dict) and len(node) == 1:
            nodes += node["dict"].values()
        elif isinstance(node, dict) and isinstance(node.get("tuple"), list) and len(node) == 1:
            nodes += node["tuple"]
        else:
            raise SpaceError(f"{node!r} is no structure of observations.", "Use Dict and Tuple.")
