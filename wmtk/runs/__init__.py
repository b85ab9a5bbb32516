"""Run directories: configuration, checkpoints, metrics and provenance."""
