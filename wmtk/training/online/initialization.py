"""Initialization of an online run: its arguments, networks and run directory."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from wmtk.agent.saved_sizes import (
    recorded_class,
    require_recorded_class,
    require_saved_sizes,
)
from wmtk.collecting import schema_of
from wmtk.datasets import Schema, Source
from wmtk.datasets.schema_match import require_fit
from wmtk.datasets.storage import atomic
from wmtk.envs import ResolvedTask, resolve
from wmtk.errors import RunError, UsageError
from wmtk.models.world_model import WorldModel
from wmtk.runs.data_sources import identity, pin_version, restore_sources
from wmtk.runs.model_spaces import require_same_observations
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors
from wmtk.runs.training_config import OnlineConfig, TrainingConfig
from wmtk.training.online.agent_trainer import AgentTrainer
from wmtk.training.precision import resolve_precision
from wmtk.training.run_setup import (
    ConfigArguments,
    DatasetLike,
    existing_run,
    require_arguments,
    resolve_config,
    resolve_resumed,
    to_sources,
)

DEFAULT_STEPS = 20_000
PREFILLS = 10  # the default number of steps is at least PREFILLS times `online.prefill`


@dataclass(frozen=True)
class OnlineStart:
    """The checked arguments and the networks of an online run."""

    run: Run
    resumed: bool
    task: ResolvedTask
    config: TrainingConfig
    sources: Sequence[Source]
    agent: AgentTrainer
    seed: int
    steps: int
    updates: int  # total number due after `steps` steps


def initialize(
    task: ResolvedTask | str,
    out: str | os.PathLike[str],
    settings: ConfigArguments,
    steps: int | None,
    datasets: DatasetLike | Sequence[DatasetLike],
    init: str | os.PathLike[str] | None,
    world_model: type[WorldModel],
    seed: int | None,
    device: str,
    resume: bool,
    on_note: Callable[[str], None],
) -> OnlineStart:
    """Check the arguments of `online`, make its networks and make or open its run directory."""
    out_path = atomic.absolute_path(out)
    init_path = atomic.absolute_path(init) if init else None
    device = require_arguments(settings[0], device, steps=0 if steps is None else steps)
    task = resolve(task) if isinstance(task, str) else task
    sources = to_sources(datasets)
    run = existing_run(out_path, "online", resume=resume)
    origin = Run(init_path) if init_path and run is None else None
    config = resolve_config(*settings, resumed=run, origin=origin, on_note=on_note)
    config = resolve_precision(config, device)
    steps = steps_of(run, config.online) if steps is None else steps
    updates = require_updates(config, steps)
    if run is not None:
        require_same_task(run, task)
        require_same_observations(run, config)
        require_saved_sizes(run, config, world_model=world_model)
    schema = schema_of(task)
    seed = int(resolve_resumed(run, "seed", seed, 0))
    sources = restore_sources(run, sources) if run else [pin_version(source) for source in sources]
    require_data(config, sources, steps)
    observations = config.data.observations(schema)
    schema_used = schema.only(observations.sources)
    for source in sources:
        require_fit(schema_used, source.dataset.schema, f"{task.task} and {source.dataset.path}")
    agent = AgentTrainer(config, schema, seed, torch.device(device), world_model)
    about = {
        "seed": seed,
        "data": [identity(source) for source in sources],
        "schema": schema.to_json(),
        "env": task.settings,
        "steps": steps,
        "init": load_init(agent, init_path, run),
        **recorded_class(world_model),
    }
    for note in observations.notes:
        on_note(note)
    resumed, run = run is not None, run or Run.create(out_path, "online", config, about)
    return OnlineStart(run, resumed, task, config, sources, agent, seed, steps, updates)


def steps_of(run: Run | None, config: OnlineConfig) -> int:
    """The total steps of the last call for a run; for a new run, the default."""
    default = max(DEFAULT_STEPS, PREFILLS * config.prefill)
    if run is None:
        return default
    state = run.state()
    if state is not None and state.agent_steps is not None:
        return state.agent_steps
    return int(run.about.get("steps") or default)


def load_init(agent: AgentTrainer, init: Path | None, run: Run | None) -> dict[str, object] | None:
    """Load the networks of another run; returns the record of it for run.json."""
    record = run.about["init"] if run else None
    if run is not None:
        recorded = record["run"] if record else None
        if init is not None and str(init) != recorded:
            raise RunError(
                f"{run.path} was started from {recorded or 'no other run'}, not from {init}.",
                "Omit init when resuming, or start a new run.",
            )
        init = Path(recorded) if recorded else None
    if init is None or (run is not None and run.step):
        return None  # a run with a checkpoint continues from that
    origin = Run(init)
    require_recorded_class(origin, type(agent.model.model))
    schema = Schema.from_json(origin.about["schema"])
    sources = origin.settings.data.observations(schema).sources
    obs = agent.schema.obs  # images may differ in size, since they are resized
    checked = [key for key in sources if key not in obs or len(obs[key].shape) < 3]
    model = schema.only(checked) if checked else replace(agent.schema, action=schema.action)
    require_fit(model, agent.schema, f"The model of {init} and the task")
    saved = origin.checkpoints.load()
    if record and record["hash"] != saved.hash:
        raise RunError(
            f"{init} has changed since the run was started from its update {record['step']}.",
            "Start a new run.",
        )
    with checkpoint_errors(saved.path):
        agent.load_pretrained(saved.tensors)
    return {"run": str(init), "step": saved.step, "hash": saved.hash}


def require_updates(config: TrainingConfig, steps: int) -> int:
    """The number of updates that are due after `steps` steps; raises if it is 0."""
    online = config.online
    updates = online.updates_at(steps)
    if not updates:
        first = online.steps_for(1)
        hint = f"Collect more: steps={10 * first}"
        # The largest prefill after which an update is due. It must be positive: without a prefill
        # there would be no data.
        max_prefill = steps if online.pretrain else steps - math.ceil(online.train_every)
        if 1 <= max_prefill < online.prefill:
            hint += f"; or fewer random steps: online.prefill={-(-max_prefill // 2)}"
        raise UsageError(
            f"No update is due after {steps:,} steps: the first one is due after {first:,}.",
            f"{hint}.",
        )
    return updates


def require_data(config: TrainingConfig, sources: Sequence[Source], steps: int) -> None:
    """Raise if there is no data for the first update."""
    if not config.online.prefill and not sources:
        raise UsageError(
            "There is no data for the first update: no random steps, and no datasets.",
            f"Collect random steps with online.prefill={min(1000, -(-steps // 2)) or 1000}, or "
            "pass datasets.",
        )


def require_same_task(run: Run, task: ResolvedTask) -> None:
    """Raise if a run was started with another task or with other options."""
    stored, given = run.about["env"], json.loads(json.dumps(task.settings))
    names = [name for name in {**stored, **given} if stored.get(name) != given.get(name)]
    if changed := [name for name in names if name != "versions"]:
        name = changed[0]
        raise RunError(
            f"{run.path} was started with {name} {stored.get(name)}, not {given.get(name)}.",
            "Resume it with the same task and options, or start a new run.",
        )
