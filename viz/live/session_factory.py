"""From what the page asks for to a world to play in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wmtk.collecting import seed_entropy
from wmtk.datasets import Schema
from wmtk.errors import UsageError
from wmtk.viz.live import protocol
from wmtk.viz.live.catalog import Catalog, Target, fits
from wmtk.viz.live.model_pool import ModelPool
from wmtk.viz.live.real_env import RealWorld
from wmtk.viz.live.session import Recording, Session

HUMAN = "human"  # who made an episode, as datasets have it


@dataclass(frozen=True)
class Started:
    """A world, the run whose model it has on loan, and how its environment is described."""

    world: Session
    run: str | None
    env: Mapping[str, Any]


def make_world(catalog: Catalog, shelf: ModelPool, asked: protocol.Start) -> Started:
    """What was asked for; refuses what does not fit together before anything is opened."""
    if asked.run is None:
        target = catalog.target
        if target is None:
            raise UsageError("There is nothing to play.", "Choose a run.")
        return Started(_real_alone(target, asked), None, target.task.settings)
    entry = catalog.run(asked.run)
    recording = real = None
    if asked.source == "data":
        data = catalog.data(asked.data)
        if not fits(entry.schema, data.dataset.schema):
            raise UsageError(
                f"{entry.name} was not made for the observations and actions of {data.name}.",
                "Choose a dataset of the same task.",
            )
        recording = Recording.read(data, asked.episode, asked.step)
    elif asked.source == "real":
        names = {"person": HUMAN, "policy": f"{entry.name}@{entry.update}"}
        schema = _kept(entry.schema, catalog.target)
        real = RealWorld(entry.task(), schema, [asked.seed], names)
    dreamer = shelf.borrow(asked.run)
    world = Session(dreamer.schema, asked.seed, dreamer, real, recording)
    return Started(world, asked.run, entry.about.get("env", {}))


def _real_alone(target: Target, asked: protocol.Start) -> Session:
    seed = seed_entropy(target.dataset, target.seed)
    schema = target.dataset.schema
    return Session(schema, asked.seed, real=RealWorld(target.task, schema, seed, {"person": HUMAN}))


def _kept(model: Schema, target: Target | None) -> Schema:
    """What is kept of real steps: all that the dataset wants, if they can be saved to it."""
    if target is not None and fits(model, target.dataset.schema):
        return target.dataset.schema
    return replace(model, info={})
