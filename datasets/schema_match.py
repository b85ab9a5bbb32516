"""Compare the spaces of data with those that a model was trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wmtk.datasets import Episode, Schema
from wmtk.errors import SchemaMismatchError, UsageError
from wmtk.spaces import ArraySpec

_HINT = (
    "A model works with data of the spaces that it was trained on: same keys, sizes and actions."
)


def require_fit(model: Schema, data: Schema, names: str) -> None:
    """Raise SchemaMismatchError unless data has the observations and actions of the model.

    Unlike `Schema.require_same_arrays`, this compares the number of actions, and ignores arrays
    that the model does not use.
    """
    _compare(_model_arrays(model), _model_arrays(data), names, _properties)


def require_episode(model: Schema, episode: object) -> None:
    """Raise unless the arrays of an episode have the model's spaces."""
    if not isinstance(episode, Episode):
        name = type(episode).__name__
        raise UsageError(f"A {name} is not an episode.", "Pass one of a dataset: dataset[0].")
    stored = {key: ArraySpec.from_array(rows) for key, rows in episode.arrays().items()}
    names = "The model and the episode"
    _compare(_model_arrays(model), stored, names, lambda spec: (spec.shape, spec.dtype))


def _model_arrays(schema: Schema) -> dict[str, ArraySpec]:
    return {f"obs/{key}": spec for key, spec in schema.obs.items()} | {"action": schema.action}


def _properties(spec: ArraySpec) -> tuple[Any, ...]:
    """The properties that a model depends on; bounds of boxes do not matter."""
    if spec.kind in {"discrete", "multi_discrete"}:
        return spec.kind, spec.shape, spec.low, spec.high
    return spec.shape, spec.dtype


def _compare(
    expected: Mapping[str, ArraySpec],
    actual: Mapping[str, ArraySpec],
    names: str,
    properties: Callable[[ArraySpec], tuple[Any, ...]],
) -> None:
    lines = []
    for key, spec in expected.items():
        other = actual.get(key)
        if other is None or properties(spec) != properties(other):
            lines.append(f"  {key}: {spec} against {other or 'nothing'}")
    if lines:
        raise SchemaMismatchError(f"{names} do not fit together:\n" + "\n".join(lines), _HINT)
