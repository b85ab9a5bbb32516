"""Training of a world model on datasets: `wmtk.train_model`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from wmtk.agent.saved_sizes import recorded_class, require_saved_sizes
from wmtk.collecting.env_setup import EnvSetup
from wmtk.envs import ResolvedTask
from wmtk.errors import UsageError
from wmtk.models.world_model import WorldModel
from wmtk.runs.baselines import store_baselines
from wmtk.runs.data_sources import identity, restore_sources
from wmtk.runs.model_spaces import require_same_observations
from wmtk.runs.run_directory import Run
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.health import exhaustion_explained
from wmtk.training.loop import Callbacks, Loop, TrainProgress
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.precision import resolve_precision
from wmtk.training.run_setup import (
    DatasetLike,
    existing_run,
    require_arguments,
    resolve_config,
    resolve_resumed,
    run_lock,
    task_or_none,
    to_sources,
    updates_of,
)
from wmtk.training.samplers import (
    fixed_batches,
    image_batch,
    make_sampler,
    require_same_spaces,
    require_window,
)

VAL_FRACTION = 0.1


def train_model(
    datasets: DatasetLike | Sequence[DatasetLike],
    out: str | os.PathLike[str],
    config: TrainingConfig | None = None,
    *,
    preset: str | None = None,
    ablations: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    world_model: type[WorldModel] = WorldModel,
    updates: int | None = None,
    seed: int | None = None,
    val_fraction: float | None = None,
    device: str = "auto",
    resume: bool = False,
    task: ResolvedTask | str | None = None,
    trust_env: Sequence[str] = (),
    on_progress: Callable[[TrainProgress], None] = lambda _: None,
    on_note: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a world model on datasets.

    All arguments are checked before the run directory is made.

    Args:
        datasets: A dataset, its path or a `Source` (a dataset with a weight and a selection of
            episodes), or several of them. They must have the same spaces.
        out: The run directory to write.
        config: All settings; default: those of `preset`, or of the run that is resumed.
        preset: The name of a preset, such as "tiny" (the default) or "atari".
        ablations: Names of ablations to apply to the settings.
        overrides: Single settings by dotted name, such as {"model.kl_scale": 0.3}.
        world_model: The class of the model, such as a subclass with a custom encoder; see
            docs/custom-models.md.
        updates: Total gradient updates of the run; default: 10,000, or that of the resumed run.
        seed: Seed of weights, batches and the validation split; default: 0.
        val_fraction: Share of the episodes that is held out; default: 0.1.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        resume: Continue from the newest checkpoint if `out` is a run already.
        task: The task of the data; default: the recorded one, if it can be made. It is used to
            measure the return of random actions if the data has no random episodes.
        trust_env: Modules that a recorded task may import.
        on_progress: Called after every update.
        on_note: Called with messages, such as about settings that change on resuming.
        stop: Called after every update; if it returns True, a checkpoint is saved and training
            ends.

    Returns:
        The run, with `path`, `step` and `checkpoints`. `wmtk.load(run.path)` loads the model.

    Raises:
        UsageError: An argument is invalid, or there is too little data.
        SchemaMismatchError: The datasets differ in their spaces.
        RunError: `out` exists and `resume` is False, or the run was made with other data.
        DivergedError: A loss or gradient is not finite, or the loss jumped.
        MemoryExhaustedError: A batch does not fit into memory.

    Example:
        >>> import wmtk
        >>> run = wmtk.train_model("catch.zarr", "runs/model", preset="tiny", updates=2)
        >>> run.step
        2
        >>> model = wmtk.load(run.path)
    """
    out = Path(out)
    run = existing_run(out, "model", resume=resume)
    updates = updates_of(run, updates)
    device = require_arguments(config, device, updates=updates)
    sources = to_sources(datasets)
    if not sources:
        raise UsageError("There is no data to train on.", "Give at least one dataset.")
    config = resolve_config(config, preset, ablations, overrides, resumed=run, on_note=on_note)
    config = resolve_precision(config, device)
    if run is not None:
        require_same_observations(run, config)
        require_saved_sizes(run, config, world_model=world_model)
        sources = restore_sources(run, sources)
    dataset = sources[0].dataset
    observations = config.data.observations(dataset.schema)
    require_same_spaces(sources, observations.sources)
    seed = int(resolve_resumed(run, "seed", seed, 0))
    fraction = float(resolve_resumed(run, "val_fraction", val_fraction, VAL_FRACTION))
    sampler = make_sampler(config.data, sources, seed, val_fraction=fraction)
    require_window(config.data.length, sampler.sources)
    count = config.logging.held_out_batches if fraction else 0
    held_out = fixed_batches(config.data, sources, seed, fraction, count)
    images = image_batch(config.data, sources, seed, fraction)
    torch.manual_seed(seed)
    trainer = ModelTrainer(config, dataset.schema, torch.device(device), world_model)
    trainer.held_out = held_out
    trainer.image_batch = lambda: images
    about = {
        "seed": seed,
        "val_fraction": fraction,
        "data": [identity(source) for source in sources],
        "schema": dataset.schema.to_json(),
        "env": dict(dataset.env),
        **recorded_class(world_model),
    }
    env_task = task_or_none(
        task, about, dataset.path, trust_env, on_note, "Random play will not be measured"
    )
    for note in observations.notes:
        on_note(note)
    resumed, run = run is not None, run or Run.create(out, "model", config, about)
    loop = Loop(run, config, trainer, sampler, Callbacks(on_progress, stop, on_note))
    with (
        exhaustion_explained(trainer.model, config.data),
        run_lock(run, lambda: resumed or loop.updates > 0),
    ):
        if resumed:
            loop.resume()
        run.append_command()
        loop.run(updates)
    if run.step >= updates:
        env = EnvSetup(env_task, seed, stop=stop, on_message=on_note) if env_task else None
        store_baselines(run, sources, env)
    return run
