"""Checks of what the training functions are called with."""

from __future__ import annotations

from wmtk.agent.device import choose_device
from wmtk.errors import UsageError
from wmtk.runs.training_config import TrainingConfig


def require_arguments(config: object, steps: int, device: str, fewest: int = 1) -> str:
    """Refuse settings, numbers of steps and devices of the wrong kind; the device to use."""
    if config is not None and not isinstance(config, TrainingConfig):
        raise UsageError(
            f"config is a {type(config).__name__}, not a TrainingConfig.",
            "Make one: training_config('tiny', overrides={'model.units': 200}).",
        )
    if not isinstance(steps, int) or steps < fewest:
        raise UsageError(f"{steps!r} steps make no sense.", f"Give a number of {fewest} or more.")
    return choose_device(device)
