"""Whether data has the spaces that a model was made for."""

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
    """Refuse data whose observations or actions are not those of the model.

    Unlike `Schema.require_same_arrays`, this minds the number of actions, but not what a model
    does not look at.
    """
    _compare(_seen(model), _seen(data), names, _facts)


def require_episode(model: Schema, episode: object) -> None:
    """Refuse an episode whose arrays are not of the model's spaces."""
    if not isinstance(episode, Episode):
        name = type(episode).__name__
        raise UsageError(f"A {name} is not an episode.", "Give one of a dataset: dataset[0].")
    there = {key: ArraySpec.from_array(rows) for key, rows in episode.arrays().items()}
    names = "The model and the episode"
    _compare(_seen(model), there, names, lambda spec: (spec.shape, spec.dtype))


def _seen(schema: Schema) -> dict[str, ArraySpec]:
    return {f"obs/{key}": spec for key, spec in schema.obs.items()} | {"action": schema.action}


def _facts(spec: ArraySpec) -> tuple[Any, ...]:
    """What a model depends on; the bounds of numbers are no part of it."""
    if spec.kind in {"discrete", "multi_discrete"}:
        return spec.kind, spec.shape, spec.low, spec.high
    return spec.shape, spec.dtype


def _compare(
    ours: Mapping[str, ArraySpec],
    theirs: Mapping[str, ArraySpec],
    names: str,
    facts: Callable[[ArraySpec], tuple[Any, ...]],
) -> None:
    lines = []
    for key, spec in ours.items():
        other = theirs.get(key)
        if other is None or facts(spec) != facts(other):
            lines.append(f"  {key}: {spec} against {other or 'nothing'}")
    if lines:
        raise SchemaMismatchError(f"{names} do not fit together:\n" + "\n".join(lines), _HINT)
