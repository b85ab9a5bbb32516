"""What the training commands share: datasets with weights, runs to resume, words to stderr."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmtk.cli.common import console
from wmtk.errors import UsageError
from wmtk.escaping import indented

if TYPE_CHECKING:
    from wmtk.datasets import Source
    from wmtk.runs.run_directory import Run
    from wmtk.runs.training_config import TrainingConfig

PRESET = "tiny"
SINGLE = ("precision", "compile")  # settings that are no section


def set_up(config: TrainingConfig, device: str) -> str:
    """The allocator and the threads of this process, for training so; words for what it runs on."""
    from wmtk.agent.device import tune_allocator, tune_threads
    from wmtk.training.precision import resolve_precision

    tune_allocator()
    tune_threads(config.data.batch_size * config.data.length, config.model.cnn_depth)
    precision = resolve_precision(config, device).precision
    return device if precision == "float32" else f"{device} in {precision}"


def say(text: str) -> None:
    console.err.print(indented(text), soft_wrap=True)


def existing_run(out: Path) -> Run | None:
    """The run that --resume goes on with, if there is one."""
    from wmtk.runs.run_directory import Run

    if os.path.lexists(out / "run.json"):
        return Run(out)
    say(f"There is no run at {out} yet: starting it.")
    return None


def comparison_of(run: Run) -> dict[str, Any] | None:
    """The run's mean return beside its baselines, as data with the sentence to show."""
    from wmtk.runs.baselines import compare_run

    found = compare_run(run)
    if found is None:
        return None
    return found.to_json("The data's mean return" if run.kind == "model" else "Mean return")


def warn_of_collapse(run: Run) -> None:
    """Warn if the latents of the run's world model carry nothing of what it sees."""
    from wmtk.runs.metrics_log import read_metrics
    from wmtk.training.health import collapsed_latents

    collapse = collapsed_latents(read_metrics(run.path), run.step)
    if collapse is None:
        return
    advice = (
        "Its latents are constant, which training cannot undo: start a new run with another "
        "--seed or a lower rate, --set optimizer.lr=…"
        if collapse.stuck
        else "Small models may do so for a while: continue with --resume and a larger --steps."
    )
    say(
        "warning: the latents have collapsed, so that the model ignores what it sees: its KL is "
        f"{collapse.kl:.2g} nats. {advice}"
    )


def require_used(changes: Mapping[str, Any], sections: Sequence[str], command: str) -> None:
    """Refuse settings that a command would accept and not use, and options of environments."""
    from wmtk.envs.options import ENV_OPTIONS
    from wmtk.runs.training_config import TrainingConfig

    uses = ", ".join(f"{s}.*" if s not in SINGLE else s for s in sections)
    for name in changes:
        section = name.partition(".")[0]
        if section == "model" != sections[0]:  # a frozen one, see `train_policy`
            continue
        if section in TrainingConfig.model_fields and section not in sections:
            raise UsageError(f"{command} does not use the setting {name}.", f"It uses {uses}.")
        if name in ENV_OPTIONS:
            raise UsageError(
                f"{name} is an option of an environment, not a setting.",
                f"It was chosen when the data was collected: wmtk collect --set {name}=…",
            )


def steps_of(run: Run | None, default: int) -> int:
    """What was asked for last."""
    if run is None:
        return default
    state = run.state()
    return default if state is None else state.steps


def config_of(
    run: Run | None,
    preset: str | None,
    ablations: Sequence[str],
    changes: Mapping[str, Any],
    init: Run | None = None,
) -> TrainingConfig:
    """A preset, or the settings of the run that is resumed or begun from, with changes.

    A run that is resumed keeps what was set beside its preset. What a changed setting was and is
    shall be said by the training itself, once it has accepted the settings.
    """
    from wmtk.agent.saved_sizes import require_saved_sizes
    from wmtk.training.presets import training_config, with_overrides, with_preset

    if run is not None and preset is not None:
        config, given = with_preset(run.settings, preset)
        if given:
            say(f"{run.path} keeps what is not of a preset: {', '.join(given)}")
    elif origin := run or init:
        config = origin.settings
    else:
        config = training_config(preset or PRESET)
    config = with_overrides(config, ablations, changes)
    if run is not None:
        require_saved_sizes(run, config)
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
