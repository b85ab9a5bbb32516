"""Makes the session that a page requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wmtk.collecting import seed_entropy
from wmtk.datasets import Schema
from wmtk.errors import UsageError
from wmtk.viz.live import protocol
from wmtk.viz.live.catalog import Catalog, RecordingTarget, fits
from wmtk.viz.live.model_pool import ModelPool
from wmtk.viz.live.real_env import RealEnv
from wmtk.viz.live.session import RecordedRows, Session

HUMAN = "human"  # the policy of episodes that a person plays, in their provenance


@dataclass(frozen=True)
class SessionStart:
    """A session, the run that its model was borrowed from, and the environment's description."""

    session: Session
    run: str | None
    env: Mapping[str, Any]


def make_session(catalog: Catalog, models: ModelPool, request: protocol.Start) -> SessionStart:
    """The requested session; raises UsageError before anything is opened if parts do not match."""
    if request.run is None:
        target = catalog.target
        if target is None:
            raise UsageError("No model was selected.", "Select a run.")
        return SessionStart(_real_alone(target, request), None, target.task.settings)
    entry = catalog.run(request.run)
    recording = real = None
    if request.source == "data":
        data = catalog.data(request.data)
        if not fits(entry.schema, data.dataset.schema):
            raise UsageError(
                f"{entry.name} has other observations or actions than {data.name}.",
                "Choose a dataset of the same task.",
            )
        recording = RecordedRows.read(data, request.episode, request.step)
    elif request.source == "real":
        names = {"person": HUMAN, "policy": f"{entry.name}@{entry.update}"}
        schema = _stored_schema(entry.schema, catalog.target)
        real = RealEnv(entry.task(), schema, [request.seed], names)
    stepper = models.borrow(request.run)
    session = Session(stepper.schema, request.seed, stepper, real, recording)
    return SessionStart(session, request.run, entry.about.get("env", {}))


def _real_alone(target: RecordingTarget, request: protocol.Start) -> Session:
    seed = seed_entropy(target.dataset, target.seed)
    schema = target.dataset.schema
    return Session(schema, request.seed, real=RealEnv(target.task, schema, seed, {"person": HUMAN}))


def _stored_schema(model: Schema, target: RecordingTarget | None) -> Schema:
    """The schema of real episodes: that of the dataset if they can be saved to it."""
    if target is not None and fits(model, target.dataset.schema):
        return target.dataset.schema
    return replace(model, info={})
