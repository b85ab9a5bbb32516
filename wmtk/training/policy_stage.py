"""Training of a policy in the imagination of a world model: `wmtk.train_policy`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from wmtk.agent.actor_policy import ActorPolicy
from wmtk.agent.batch_tensors import ActionCodec
from wmtk.agent.compat import restore_world_model
from wmtk.agent.saved_sizes import recorded_class, require_saved_sizes
from wmtk.collecting import schema_of
from wmtk.collecting.env_setup import EnvSetup
from wmtk.collecting.evaluator import EVALUATION
from wmtk.datasets import Dataset, Schema, Source
from wmtk.datasets.schema_match import require_fit
from wmtk.envs import ResolvedTask
from wmtk.errors import ConfigError, DatasetError, RunError
from wmtk.models import kernels
from wmtk.models.world_model import WorldModel
from wmtk.runs.baselines import store_baselines
from wmtk.runs.checkpoint import Checkpoint
from wmtk.runs.data_sources import identity, restore_sources
from wmtk.runs.model_spaces import require_same_observations, spaces_of
from wmtk.runs.replay import has_replay, open_replay
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.loop import Callbacks, Loop, TrainProgress
from wmtk.training.policy_trainer import PolicyTrainer
from wmtk.training.precision import resolve_precision, set_up
from wmtk.training.run_eval import run_eval
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
from wmtk.training.samplers import make_sampler, require_same_spaces

HAS_MODEL = ("model", "policy", "online")  # kinds of runs with a world model


def train_policy(
    model_run: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: TrainingConfig | None = None,
    *,
    ablations: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    datasets: DatasetLike | Sequence[DatasetLike] | None = None,
    checkpoint: str = "latest",
    world_model: type[WorldModel] = WorldModel,
    updates: int | None = None,
    episodes: int = 10,
    task: ResolvedTask | str | None = None,
    trust_env: Sequence[str] = (),
    workers: int | None = None,
    timeout: float = 60.0,
    seed: int | None = None,
    device: str = "auto",
    resume: bool = False,
    on_progress: Callable[[TrainProgress], None] = lambda _: None,
    on_message: Callable[[str], None] = lambda _: None,
    on_note: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train an actor and a critic in the imagination of a trained world model.

    Imagination starts from the model's states of recorded data. The model is not changed; the new
    run contains a copy of it, so that it does not depend on `model_run`. All arguments are checked
    before the run directory is made.

    Args:
        model_run: The run directory of a world model, a policy or an online agent.
        out: The run directory to write.
        config: All settings; default: those of `model_run`, or of the run that is resumed. The
            settings of the world model cannot be changed.
        ablations: Names of ablations to apply to the settings.
        overrides: Single settings by dotted name, such as {"behavior.entropy": 3e-4}.
        datasets: The data whose states imagination starts from; default: the data of `model_run`.
        checkpoint: The checkpoint of `model_run`: "latest", "best" or an update's number.
        world_model: The class that `model_run` was trained with, if it is a subclass.
        updates: Total gradient updates of the run; default: 10,000, or that of the resumed run.
        episodes: Test episodes after the last update; 0 disables them.
        task: The task of the test episodes; default: that of the data, if it can be made.
        trust_env: Modules that a recorded task may import.
        workers: Processes for the environments; default: as many as there are cores.
        timeout: Seconds without a step after which a process is replaced.
        seed: Seed of weights and batches; default: 0.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps".
        resume: Continue from the newest checkpoint if `out` is a run already.
        on_progress: Called after every update.
        on_message: Called with messages about the environments of the episodes.
        on_note: Called with messages, such as about settings that differ from the model's run.
        stop: Called after every update; if it returns True, a checkpoint is saved and training
            ends.

    Returns:
        The run, with `path`, `step` and `checkpoints`. `wmtk.load(run.path)` loads the agent.

    Raises:
        UsageError: An argument is invalid, or there is too little data.
        ConfigError: The settings of the world model differ from those it was trained with.
        RunError: `model_run` has no world model, its data is missing, or `out` exists without
            `resume`.
        DivergedError: A loss or gradient is not finite.

    Example:
        >>> import wmtk
        >>> run = wmtk.train_policy("runs/model", "runs/policy", updates=2, episodes=1)
        >>> run.step
        2
        >>> agent = wmtk.load(run.path)
    """
    model_run, out = Path(model_run), Path(out)
    run = existing_run(out, "policy", resume=resume)
    updates = updates_of(run, updates)
    device = require_arguments(config, device, updates=updates)
    origin = model_of(model_run) if run is None or not run.step else run
    config = resolve_config(
        config, None, ablations, overrides, resumed=run, origin=origin, on_note=on_note
    )
    _require_same_model(origin, config)
    which = "latest" if origin is run else checkpoint
    settings = config if origin is run else origin.settings
    require_saved_sizes(origin, settings, which, world_model)
    sources = data_of(run or origin) if datasets is None else to_sources(datasets)
    schema = Schema.from_json(origin.about["schema"])
    schema_used, _ = spaces_of(origin)
    if run is not None:
        sources = restore_sources(run, sources)
    for source in sources:
        names = f"The model of {origin.path} and {source.dataset.path}"
        require_fit(schema_used, source.dataset.schema, names)
    require_same_spaces(sources, schema_used.obs)
    seed = int(resolve_resumed(run, "seed", seed, 0))
    sampler = make_sampler(config.data, sources, seed)
    saved = origin.checkpoints.load(which)
    if run is not None and origin is not run:
        _require_same_weights(run, saved)
    torch.manual_seed(seed)
    model = frozen_model(config, schema, saved, torch.device(device), world_model)
    trainer = PolicyTrainer(config, schema, model)
    env_task, env = None, None
    if episodes:
        note = "The policy will not be evaluated in the environment"
        env_task = task_or_none(task, origin.about, model_run, trust_env, on_note, note)
    if env_task is not None:
        env = EnvSetup(env_task, seed, workers, timeout, stop, on_message=on_message)
        if env_task.time_limit is None:
            on_note(
                f"{env_task.task} has no time limit: test episodes are cut at the length of the "
                "longest episode of the data."
            )
        policy = ActorPolicy(
            model,
            trainer.actor_critic,
            schema,
            observations=trainer.observations,
            sample=False,
            seed=[seed, EVALUATION],
        )
        trainer.test = partial(
            run_eval, env.with_limit_of(sources), schema_of(env_task), policy, episodes
        )
    about = {
        "seed": seed,
        "data": [identity(source) for source in sources],
        "schema": schema.to_json(),
        "env": dict(origin.about["env"]),
        "model": {"run": str(model_run), "step": saved.step, "hash": saved.hash},
        **recorded_class(world_model),
    }
    if run is None:
        for name, (old, new) in origin.settings.diff(config).items():
            on_note(f"{name} is {new}; it was {old}.")
    resumed, run = run is not None, run or Run.create(out, "policy", config, about)
    loop = Loop(run, config, trainer, sampler, Callbacks(on_progress, stop, on_note))
    with run_lock(run, lambda: resumed or loop.updates > 0):
        if resumed:
            loop.resume()
        run.append_command()
        loop.run(updates)
    if run.step >= updates:
        store_baselines(run, sources, env)
    return run


def model_of(path: Path) -> Run:
    """The run at a path; raises unless it has a checkpoint of a world model."""
    run = Run(path)
    if run.kind not in HAS_MODEL:
        raise RunError(f"{path} is a {run.kind} run: it has no world model.", "Train one first.")
    if not run.step:
        raise RunError(f"{path} has no checkpoint yet.", "Train the model first.")
    return run


def data_of(run: Run) -> list[Source]:
    """The data of a run at the recorded versions, and its replay at the current version."""
    sources = []
    for item in run.about["data"]:
        try:
            dataset = Dataset.open(item["path"], version=item["version"])
        except DatasetError as error:
            raise RunError(
                f"The data of {run.path} cannot be read: {error.message}",
                "Pass the datasets whose states imagination starts from.",
            ) from error
        source = Source(dataset, item["weight"])
        current = identity(source)
        if current["id"] != item["id"] or current["selection"] != item["selection"]:
            raise RunError(
                f"{item['path']} differs from the data of {run.path}: it is another dataset, or "
                "the run used a selection of its episodes.",
                "Pass the datasets whose states imagination starts from.",
            )
        sources.append(source)
    if run.kind == "online" and has_replay(run.path):
        sources.append(Source(open_replay(run.path)))
    return sources


def _require_same_model(origin: Run, settings: TrainingConfig) -> None:
    require_same_observations(origin, settings)
    if changed := origin.settings.model.diff(settings.model):
        name, (old, new) = next(iter(changed.items()))
        raise ConfigError(
            f"model.{name} is {old} in {origin.path}; it cannot be {new}.",
            "The world model is trained already: set behavior.*, data.* and logging.* only.",
        )


def _require_same_weights(run: Run, saved: Checkpoint) -> None:
    """Raise if a run without a checkpoint was started with another model."""
    recorded: Mapping[str, Any] = run.about["model"]
    if recorded["hash"] != saved.hash:
        raise RunError(
            f"{run.path} was started with update {recorded['step']} of {recorded['run']}; the "
            f"given model has other weights, of update {saved.step}.",
            "Start a new run.",
        )


def frozen_model(
    config: TrainingConfig,
    schema: Schema,
    saved: Checkpoint,
    device: torch.device,
    world_model: type[WorldModel] = WorldModel,
) -> WorldModel:
    """The world model of a checkpoint, with frozen weights."""
    codec = ActionCodec(schema.action)
    config = resolve_precision(config, device)
    specs = config.data.observations(schema).specs
    kernels.select(config.kernels)
    model = world_model(config.model, specs, codec.size).to(device)
    model.requires_grad_(False).eval()
    set_up(model, device, config.precision, compiled=config.compile)  # as in `ModelTrainer`
    with checkpoint_errors(saved.path):
        restore_world_model(model, saved.tensors)
    return model
