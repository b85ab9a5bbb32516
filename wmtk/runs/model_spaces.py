"""The spaces of a run: those of its data, and what its model sees of them."""

from __future__ import annotations

from wmtk.datasets import Schema
from wmtk.errors import ConfigError
from wmtk.observations import ObsCodec
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import OBSERVATIONS, TrainingConfig


def spaces_of(run: Run, config: TrainingConfig | None = None) -> tuple[Schema, ObsCodec]:
    """The schema of data for a run's model, with the keys that it sees, and how it sees them."""
    schema = Schema.from_json(run.about["schema"])
    settings = run.settings if config is None else config
    observations = settings.data.observations(schema)
    return schema.only(observations.sources), observations


def require_same_observations(run: Run, config: TrainingConfig) -> None:
    """Refuse settings with which the model of a run would see something else than it learned."""
    changed = run.settings.data.diff(config.data)
    for name in OBSERVATIONS:
        if name in changed:
            old, new = changed[name]
            raise ConfigError(
                f"data.{name} is {old or 'unset'} in {run.path}; it cannot be {new or 'unset'}.",
                "The model was trained on these observations: start a new run for others.",
            )
