"""Run directories: configuration, checkpoints, metrics, provenance."""
