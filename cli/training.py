"""What the training commands share: datasets with weights, runs to resume, words to stderr."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmtk.cli import console
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.datasets import Source
    from wmtk.training.presets import TrainingConfig
    from wmtk.training.run import Run

PRESET = "tiny"


def set_up(config: TrainingConfig, device: str) -> str:
    """The allocator and the threads of this process, for training so; words for what it runs on."""
    from wmtk.training.device import tune_allocator, tune_threads
    from wmtk.training.precision import settled

    tune_allocator()
    tune_threads(config.data.batch_size * config.data.length, config.model.depth)
    precision = settled(config, device).precision
    return device if precision == "float32" else f"{device} in {precision}"


def say(text: str) -> None:
    console.err.print(text, highlight=False, soft_wrap=True, markup=False)


def existing_run(out: Path) -> Run | None:
    """The run that --resume goes on with, if there is one."""
    from wmtk.training.run import Run

    if (out / "run.json").exists():
        return Run(out)
    say(f"There is no run at {out} yet: starting it.")
    return None


def steps_of(run: Run | None, default: int) -> int:
    """What was asked for last."""
    if run is None or not run.step:
        return default
    return int(run.checkpoints.document()["state"]["steps"])


def config_of(
    run: Run | None,
    preset: str | None,
    ablations: Sequence[str],
    changes: Mapping[str, Any],
    init: Run | None = None,
) -> TrainingConfig:
    """A preset, or the settings of the run that is resumed or begun from, with changes."""
    from wmtk.training.presets import TrainingConfig, altered, training_config

    origin = run or init
    stored = TrainingConfig.build(origin.config()) if origin else None
    config = stored if stored and preset is None else training_config(preset or PRESET)
    config = altered(config, ablations, changes)
    if stored and run:
        for name, (old, new) in stored.differences(config).items():
            say(f"From now on {name} is {new}; it was {old}.")
    return config


def source_of(
    text: str,
    tag: str | None = None,
    min_return: float | None = None,
    max_return: float | None = None,
    policy: str | None = None,
) -> Source:
    """`path` or `path=weight`, and which of its episodes."""
    from wmtk.datasets import Dataset, Source, all_of, by_provenance, select

    path, equals, number = text.rpartition("=")
    weight = 1.0
    if not equals or Path(text).exists():
        path = text
    else:
        weight = _weight(number)
    dataset = Dataset.open(path, tag=tag)
    returns = select(min_return=min_return, max_return=max_return)
    return Source(dataset, weight, all_of(returns, by_provenance(dataset, policy=policy)))


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < math.inf:
        raise UsageError(f"{text!r} is no weight.", "Write path=2.5 for a weight of 2.5.")
    return weight
