"""The spaces of a run's data and the inputs of its model."""

from __future__ import annotations

from wmtk.datasets import Schema
from wmtk.errors import ConfigError
from wmtk.observations import ObsCodec
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import OBSERVATIONS, TrainingConfig


def spaces_of(run: Run, config: TrainingConfig | None = None) -> tuple[Schema, ObsCodec]:
    """The schema of the data, with the keys that the model uses, and their conversion."""
    schema = Schema.from_json(run.about["schema"])
    settings = run.settings if config is None else config
    observations = settings.data.observations(schema)
    return schema.only(observations.sources), observations


def require_same_observations(run: Run, config: TrainingConfig) -> None:
    """Raise ConfigError if settings change the inputs of a run's model."""
    changed = run.settings.data.diff(config.data)
    for name in OBSERVATIONS:
        if name in changed:
            old, new = changed[name]
            raise ConfigError(
                f"data.{name} is {old or 'unset'} in {run.path}; it cannot be {new or 'unset'}.",
                "The model was trained on these observations: start a new run for others.",
            )
