"""Setup of a training run: arguments, data and run directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wmtk.agent.device import choose_device
from wmtk.collecting import schema_of, task_of
from wmtk.datasets import Dataset, Schema, Source
from wmtk.datasets.schema_match import require_fit
from wmtk.datasets.storage import atomic
from wmtk.envs import ResolvedTask, resolve
from wmtk.errors import RunError, UsageError, WmtkError
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.presets import DEFAULT_PRESET, training_config, with_overrides, with_preset

DEFAULT_UPDATES = 10_000

# Config, preset, ablations and overrides, as in `resolve_config`.
ConfigArguments = tuple[TrainingConfig | None, str | None, Sequence[str], Mapping[str, Any] | None]
DatasetLike = Dataset | Source | str | os.PathLike[str]


def to_sources(datasets: DatasetLike | Sequence[DatasetLike]) -> list[Source]:
    """One or several datasets, paths or sources as a list of sources."""
    if isinstance(datasets, Dataset | Source | str | os.PathLike):
        datasets = [datasets]
    return [Source.of(dataset) for dataset in datasets]


def require_arguments(config: object, device: str, **counts: int) -> str:
    """Check arguments of a training function; returns the resolved device.

    `counts` are `updates`, which must be positive, or `steps`, which must not be negative.
    """
    if config is not None and not isinstance(config, TrainingConfig):
        raise UsageError(
            f"config is a {type(config).__name__}, not a TrainingConfig.",
            "Make one: training_config('tiny', overrides={'model.units': 200}).",
        )
    for name, count in counts.items():
        minimum = 0 if name == "steps" else 1
        if not isinstance(count, int) or count < minimum:
            raise UsageError(f"{name} is {count!r}.", f"Give an integer of {minimum} or more.")
    return choose_device(device)


def resolve_config(
    config: TrainingConfig | None,
    preset: str | None,
    ablations: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    *,
    resumed: Run | None = None,
    origin: Run | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> TrainingConfig:
    """The settings of a run.

    They are based on `config` or `preset` if given, else on the settings of `resumed`, else on
    those of `origin`, else on the default preset. A run that is resumed with another preset keeps
    the settings that differ from its previous preset.
    """
    if config is not None and preset is not None:
        raise UsageError(
            f"Both config and preset {preset!r} are given.",
            "Give one of them; training_config(preset, overrides=...) makes a config.",
        )
    if config is not None:
        base = config
    elif resumed is not None and preset is not None:
        base, changed = with_preset(resumed.settings, preset)
        if changed:
            names = ", ".join(changed)
            on_note(f"{resumed.path} keeps settings that differ from its preset: {names}")
    elif preset is None and (run := resumed or origin) is not None:
        base = run.settings
    else:
        base = training_config(preset or DEFAULT_PRESET)
    return with_overrides(base, ablations, overrides or {})


def updates_of(run: Run | None, updates: int | None) -> int:
    """The total number of updates: `updates`, else that of the last call for this run."""
    if updates is not None:
        return updates
    state = run.state() if run else None
    return state.steps if state else DEFAULT_UPDATES


def existing_run(out: Path, kind: str, *, resume: bool) -> Run | None:
    """The run to resume; None for a new run. Raises if `out` exists and `resume` is False."""
    if not resume or not os.path.lexists(out / "run.json"):
        Run.require_vacant(out)
        return None
    run = Run(out)
    if run.kind != kind:
        function = run.kind if run.kind == "online" else f"train_{run.kind}"
        raise RunError(
            f"{out} is a {run.kind} run, not one of kind {kind}.",
            f"Resume it with wmtk.{function}, or choose another path.",
        )
    return run


def resolve_resumed(run: Run | None, name: str, given: float | None, default: float) -> float:
    """The value of an argument that cannot change when a run is resumed."""
    if run is None:
        return default if given is None else given
    stored: float = run.about[name]  # present, by the schema of run.json
    if given is not None and given != stored:
        raise RunError(
            f"{run.path} was started with {name} {stored}, not {given}.",
            f"Omit {name} when resuming, or start a new run.",
        )
    return stored


@contextmanager
def run_lock(run: Run, is_worth_keeping: Callable[[], bool]) -> Iterator[None]:
    """Lock a run directory. After an error, remove it unless `is_worth_keeping` returns True."""
    try:
        with run.lock():
            yield
    except BaseException:
        if not is_worth_keeping():
            atomic.remove_tree(run.path)  # the next attempt can use the same path
        raise


def task_or_none(
    task: ResolvedTask | str | None,
    about: Mapping[str, Any],
    path: Path,
    trust_env: Sequence[str],
    on_note: Callable[[str], None],
    consequence: str,
) -> ResolvedTask | None:
    """`task`, else the recorded one; None, with a note, if the recorded one cannot be made."""
    if task is not None:
        return resolve(task) if isinstance(task, str) else task
    if not about["env"]:
        return None
    try:
        return recorded_task(about, path, trust_env)
    except WmtkError as error:
        on_note(f"{consequence}: {error}")
        return None


def recorded_task(
    about: Mapping[str, Any], path: Path, trust_env: Sequence[str] = ()
) -> ResolvedTask:
    """The task in the record of a run or dataset; raises unless it has the spaces of the data."""
    task = task_of(about["env"], trust_env=trust_env)
    require_fit(Schema.from_json(about["schema"]), schema_of(task), f"{path} and {task.task}")
    return task
