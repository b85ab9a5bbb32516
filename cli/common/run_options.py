"""Inputs of the training commands: the run to resume, settings and weighted datasets."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmtk.cli.common.console import note
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.datasets import Source
    from wmtk.runs.run_directory import Run
    from wmtk.runs.training_config import TrainingConfig

SINGLE = ("precision", "compile")  # settings outside any section


def set_up(config: TrainingConfig, device: str) -> str:
    """Tune allocator and threads of this process; returns the device and precision, as text."""
    from wmtk.agent.device import tune_allocator, tune_threads
    from wmtk.training.precision import resolve_precision

    tune_allocator()
    tune_threads(config.data.batch_size * config.data.length, config.model.cnn_depth)
    precision = resolve_precision(config, device).precision
    return device if precision == "float32" else f"{device} in {precision}"


def existing_run(out: Path) -> Run | None:
    """The run that --resume continues, if it exists."""
    from wmtk.runs.run_directory import Run

    if os.path.lexists(out / "run.json"):
        return Run(out)
    note(f"There is no run at {out} yet: starting it.")
    return None


def warn_of_collapse(run: Run) -> None:
    """Warn if the latents of the run's world model carry no information about observations."""
    from wmtk.runs.metrics_log import read_metrics
    from wmtk.training.health import collapsed_latents

    collapse = collapsed_latents(read_metrics(run.path), run.step)
    if collapse is None:
        return
    amount = "--steps" if run.kind == "online" else "--updates"
    advice = (
        "They are constant, which further training does not change: start a new run with another "
        "--seed or a lower learning rate, --set optimizer.lr=…"
        if collapse.stuck
        else f"Small models may recover: continue with --resume and a larger {amount}."
    )
    note(
        "warning: the latents have collapsed: the model ignores its observations (KL "
        f"{collapse.kl:.2g} nats). {advice}"
    )


def require_used(changes: Mapping[str, Any], sections: Sequence[str], command: str) -> None:
    """Refuse settings that `command` would accept and ignore, and options of environments."""
    from wmtk.envs.task_options import ENV_OPTIONS
    from wmtk.runs.training_config import TrainingConfig

    used = ", ".join(f"{s}.*" if s not in SINGLE else s for s in sections)
    for name in changes:
        section = name.partition(".")[0]
        if section == "model" != sections[0]:  # of a frozen model: `train_policy` reports it
            continue
        if section in TrainingConfig.model_fields and section not in sections:
            raise UsageError(f"{command} does not use the setting {name}.", f"It uses {used}.")
        if name in ENV_OPTIONS:
            raise UsageError(
                f"{name} is an option of an environment, not a setting.",
                f"Choose it when collecting the data: wmtk collect --env-set {name}=…",
            )


def source_of(
    text: str,
    tag: str | None = None,
    min_return: float | None = None,
    max_return: float | None = None,
    policy: str | None = None,
) -> Source:
    """The dataset of `path` or `path=weight`, with a selection of its episodes."""
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
        raise UsageError(f"{text!r} is not a weight.", "Write path=2.5 for a weight of 2.5.")
    return weight
