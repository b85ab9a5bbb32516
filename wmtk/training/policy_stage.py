"""The third stage: an actor and a critic, from a world model and the data that it knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wmtk.agent.actor_policy import ActorPolicy
from wmtk.agent.batch_tensors import ActionCodec, to_inputs
from wmtk.agent.compat import restore_world_model
from wmtk.agent.saved_sizes import require_saved_sizes
from wmtk.collecting import EvalReport, schema_of
from wmtk.collecting.env_setup import EnvSetup
from wmtk.collecting.evaluator import EVALUATION
from wmtk.datasets import Batch, Dataset, Schema, Source
from wmtk.datasets.schema_match import require_fit
from wmtk.errors import ConfigError, DatasetError, RunError
from wmtk.models.actions import actions_of
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.baselines import store_baselines
from wmtk.runs.checkpoint import Checkpoint
from wmtk.runs.data_sources import identity, restore_sources
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.model_spaces import require_same_observations, spaces_of
from wmtk.runs.replay import has_replay, open_replay
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors, module_state
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.arguments import require_arguments
from wmtk.training.loop import (
    Callbacks,
    Loop,
    Report,
    TrainProgress,
    existing_run,
    resolve_resumed,
    train,
)
from wmtk.training.policy_trainer import PolicyTrainer
from wmtk.training.precision import resolve_precision, set_up
from wmtk.training.run_eval import run_eval, scores
from wmtk.training.samplers import make_sampler, require_same_spaces

HAS_MODEL = ("model", "policy", "online")  # kinds of runs to take a world model from


def train_policy(
    model_run: Path,
    out: Path,
    *,
    steps: int,
    sources: Sequence[Source] | None = None,
    config: TrainingConfig | None = None,
    which: str = "latest",
    seed: int | None = None,
    device: str = "cpu",
    resume: bool = False,
    test: EnvSetup | None = None,
    episodes: int = 10,
    on_progress: Callable[[TrainProgress], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    on_note: Callable[[str], None] = lambda _: None,
) -> Run:
    """Train an actor and a critic for `steps` updates in all, in a run directory.

    They learn inside of the world model of another run, at the checkpoint `which`; it stays as it
    is. Imagination starts from its states of the data, by default the data that it was trained
    on; the settings are those of its run unless others are given. The new run holds the model as
    well, so that it can act, and be resumed, without the other one. `test` is a task to play some
    episodes of at the end, so that what was imagined stands beside what comes.
    """
    device = require_arguments(config, steps, device)
    run = existing_run(out, "policy", resume=resume)
    origin = model_of(model_run) if run is None or not run.step else run
    settings = (run or origin).settings if config is None else config
    _require_same_model(origin, settings)
    at = "latest" if origin is run else which
    require_saved_sizes(origin, settings if origin is run else origin.settings, at)
    chosen = (
        data_of(run or origin) if sources is None else [Source.of(source) for source in sources]
    )
    schema = Schema.from_json(origin.about["schema"])
    seen, _ = spaces_of(origin)
    if run is not None:
        chosen = restore_sources(run, chosen)
    for source in chosen:
        names = f"The model of {origin.path} and {source.dataset.path}"
        require_fit(seen, source.dataset.schema, names)
    require_same_spaces(chosen, seen.obs)
    seed = int(resolve_resumed(run, "seed", seed, 0))
    sampler = make_sampler(settings.data, chosen, seed)
    saved = origin.checkpoints.load(at)
    if run is not None and origin is not run:
        _require_same_weights(run, saved)
    torch.manual_seed(seed)
    model = frozen_model(settings, schema, saved, torch.device(device))
    stage = PolicyStage(settings, schema, model)
    if test is not None:
        dice = [test.seed, EVALUATION]
        policy = ActorPolicy(
            model,
            stage.trainer.behavior,
            schema,
            observations=stage.observations,
            sample=False,
            seed=dice,
        )
        spaces = schema_of(test.task)
        tested = test.with_limit_of(chosen)
        stage.examine = lambda: run_eval(tested, spaces, policy, episodes)
    about = {
        "seed": seed,
        "data": [identity(source) for source in chosen],
        "schema": schema.to_json(),
        "env": dict(origin.about["env"]),
        "model": {"run": str(model_run), "step": saved.step, "hash": saved.hash},
    }
    begun = run or Run.create(out, "policy", settings, about)
    if run is None:
        for name, (old, new) in origin.settings.diff(settings).items():
            on_note(f"{name} is {new}; it was {old}.")
    loop = Loop(begun, settings, stage, sampler, Callbacks(on_progress, stop, on_note))
    train(loop, begun, steps, resumed=run is not None)
    if begun.step >= steps:
        store_baselines(begun, chosen, test)
    return begun


def model_of(path: Path) -> Run:
    """A run with a world model in it."""
    run = Run(path)
    if run.kind not in HAS_MODEL:
        raise RunError(f"{path} is a {run.kind} run, without a world model.", "wmtk train-model")
    if not run.step:
        raise RunError(f"{path} has no checkpoint yet.", "Train the model first: wmtk train-model.")
    return run


def data_of(run: Run) -> list[Source]:
    """The data that a run was trained on, at the versions it had; its replay as it is now."""
    found = []
    for item in run.about["data"]:
        try:
            dataset = Dataset.open(item["path"], version=item["version"])
        except DatasetError as error:
            raise RunError(
                f"The data of {run.path} cannot be read: {error.message}",
                "Name the datasets to start from after the run.",
            ) from error
        source = Source(dataset, item["weight"])
        now = identity(source)
        if now["id"] != item["id"] or now["selection"] != item["selection"]:
            raise RunError(
                f"{run.path} was trained on a part of {item['path']}, or on another dataset that "
                "was there before.",
                "Name the datasets to start from after the run.",
            )
        found.append(source)
    if run.kind == "online" and has_replay(run.path):
        found.append(Source(open_replay(run.path)))
    return found


def _require_same_model(origin: Run, settings: TrainingConfig) -> None:
    require_same_observations(origin, settings)
    if changed := origin.settings.model.diff(settings.model):
        name, (old, new) = next(iter(changed.items()))
        raise ConfigError(
            f"model.{name} is {old} in {origin.path}; it cannot be {new}.",
            "The world model is trained already: set behavior.*, data.* and logging.* only.",
        )


def _require_same_weights(run: Run, saved: Checkpoint) -> None:
    """A run that has no checkpoint yet takes the model again, but not another one."""
    recorded: Mapping[str, Any] = run.about["model"]
    if recorded["hash"] != saved.hash:
        raise RunError(
            f"{run.path} was begun with update {recorded['step']} of {recorded['run']}, and this "
            f"is another model, of update {saved.step}.",
            "Start a new run.",
        )


def frozen_model(
    config: TrainingConfig, schema: Schema, saved: Checkpoint, device: torch.device
) -> WorldModel:
    """The world model of a checkpoint, which nobody is to train."""
    codec = ActionCodec(schema.action)
    config = resolve_precision(config, device)
    specs = config.data.observations(schema).specs
    model = WorldModel(config.model, specs, codec.size).to(device)
    model.requires_grad_(False).eval()
    set_up(model, device, config.precision, compiled=config.compile)  # as in its own training
    with checkpoint_errors(saved.path):
        restore_world_model(model, saved.tensors)
    return model


class PolicyStage:
    """A policy trainer that starts from a model's states of recorded data."""

    interrupted = False

    def __init__(self, config: TrainingConfig, schema: Schema, model: WorldModel) -> None:
        self._model = model
        self._codec = ActionCodec(schema.action)
        self.observations = config.data.observations(schema)
        self.trainer = PolicyTrainer(config.behavior, model, actions_of(schema.action))
        # Plays a test at the end; None if it was interrupted.
        self.examine: Callable[[], EvalReport | None] | None = None

    @torch.no_grad()
    def see(self, batch: Batch) -> tuple[Inputs, State]:
        """A batch as tensors, and the states that the model takes its rows for."""
        device = next(self._model.parameters()).device
        inputs = to_inputs(batch, self.observations, self._codec, device)
        return inputs, self._model.observe(inputs)

    def learn(self, inputs: Inputs, post: State, step: int) -> Mapping[str, Tensor]:
        """One gradient step from states (B, T, …) that somebody has found already."""
        return self.trainer.learn(post, inputs, step)

    def update(self, batch: Batch, step: int) -> Mapping[str, Tensor]:
        return self.learn(*self.see(batch), step)

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        values = self.trainer.report([metrics])
        shown = {
            "imagined return": values.get("imagined/return", values["imagined/reward"]),
            "value": values["critic/value"],
            "entropy": values["entropy/actor"],
        }
        values |= {f"lr/{name}": rate for name, rate in self.trainer.rates.items()}
        return Report({f"train/{name}": value for name, value in values.items()}, shown)

    def look(
        self, log: MetricsLog, step: int, *, last: bool, best: float | None = None
    ) -> float | None:
        self.interrupted = False
        if last and self.examine is not None:
            report = self.examine()
            self.interrupted = report is None
            if report is not None:
                log.scalars(step, scores(report))
        return None

    def advice(self) -> str:
        rates = self.trainer.rates.items()
        return " ".join(f"--set behavior.{name}.lr={rate / 3:.1g}" for name, rate in rates)

    def tensors(self) -> dict[str, Tensor]:
        return module_state("model", self._model) | self.trainer.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        restore_world_model(self._model, tensors)
        self.trainer.restore(tensors)
