"""The second stage: a world model from datasets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from wmtk.agent.open_loop_images import CONTEXT, HORIZON, open_loop_windows, save_image
from wmtk.agent.saved_sizes import require_saved_sizes
from wmtk.collecting.env_setup import EnvSetup
from wmtk.datasets import Batch, Source
from wmtk.errors import UsageError
from wmtk.models.rssm import State
from wmtk.models.schedules import Linear
from wmtk.models.world_model import Inputs
from wmtk.runs.baselines import store_baselines
from wmtk.runs.data_sources import identity, restore_sources
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.model_spaces import require_same_observations
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import fork_rng
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.arguments import require_arguments
from wmtk.training.loop import Callbacks, Loop, Report, existing_run, resolve_resumed, train
from wmtk.training.loop import TrainProgress as TrainProgress
from wmtk.training.memory import exhaustion_explained
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.precision import resolve_precision
from wmtk.training.samplers import fixed_batches, make_sampler, require_same_spaces, require_window

VAL_FRACTION = 0.1
CHOICE = 8  # windows, of which the longest are shown in pictures


def train_model(
    sources: Sequence[Source],
    out: Path,
    config: TrainingConfig,
    *,
    steps: int,
    seed: int | None = None,
    val_fraction: float | None = None,
    device: str = "cpu",
    resume: bool = False,
    task: EnvSetup | None = None,
    on_progress: Callable[[TrainProgress], None] = lambda _: None,
    on_note: Callable[[str], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a world model for `steps` updates in all, in a run directory.

    `resume` goes on with a run that is there already, with these settings, and with its own seed
    and held-out episodes. `stop` is asked after every update; if it says so, a checkpoint is
    saved and training ends early. What cannot work is refused before anything is written. `task` is
    the task of the data, to measure random play where its return is not known. `on_note` is called
    with what becomes of images that do not fit the networks.
    """
    device = require_arguments(config, steps, device)
    sources = [Source.of(source) for source in sources]
    if not sources:
        raise UsageError("There is no data to train on.", "Give at least one dataset.")
    config = resolve_precision(config, device)
    run = existing_run(out, "model", resume=resume)
    if run is not None:
        require_same_observations(run, config)
        require_saved_sizes(run, config)
        sources = restore_sources(run, sources)
    observations = config.data.observations(sources[0].dataset.schema)
    require_same_spaces(sources, observations.sources)
    seed = int(resolve_resumed(run, "seed", seed, 0))
    fraction = float(resolve_resumed(run, "val_fraction", val_fraction, VAL_FRACTION))
    sampler = make_sampler(config.data, sources, seed, val_fraction=fraction)
    require_window(config.data.length, sampler.sources)
    count = config.logging.held_out_batches if fraction else 0
    held = fixed_batches(config.data, sources, seed, fraction, count)
    wide = config.data.override({"batch_size": CHOICE, "length": CONTEXT + HORIZON})
    (shown,) = fixed_batches(wide, sources, seed, fraction, 1)
    dataset = sources[0].dataset
    torch.manual_seed(seed)
    trainer = ModelTrainer(config, dataset.schema, torch.device(device))
    about = {
        "seed": seed,
        "val_fraction": fraction,
        "data": [identity(source) for source in sources],
        "schema": dataset.schema.to_json(),
        "env": dict(dataset.env),
    }
    for note in observations.notes:
        on_note(note)
    begun = run or Run.create(out, "model", config, about)
    stage = ModelStage(begun, config, trainer, held, lambda: shown)
    loop = Loop(begun, config, stage, sampler, Callbacks(on_progress, stop, on_note))
    with exhaustion_explained(trainer, config.data):
        train(loop, begun, steps, resumed=run is not None)
    if begun.step >= steps:
        store_baselines(begun, sources, task)
    return begun


class ModelStage:
    """A model trainer with an eye on held-out data."""

    interrupted = False  # it plays no tests

    def __init__(
        self,
        run: Run,
        config: TrainingConfig,
        trainer: ModelTrainer,
        held: Sequence[Batch],
        shown: Callable[[], Batch],
    ) -> None:
        self._run, self._config, self.trainer = run, config, trainer
        self._held, self._shown = held, shown

    def learn(self, batch: Batch, step: int) -> tuple[Inputs, State, Mapping[str, Tensor]]:
        """One gradient step: the batch as tensors, its states (B, T, …), and what to log."""
        inputs = self.trainer.inputs(batch)
        return inputs, *self.trainer.update(inputs, step)

    def update(self, batch: Batch, step: int) -> Mapping[str, Tensor]:
        return self.learn(batch, step)[-1]

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        values = self.trainer.report([metrics])
        named = {f"train/{name}": value for name, value in values.items()}
        named["train/lr/model"] = self.trainer.rate
        return Report(named, self.trainer.terms(values))

    def look(
        self, log: MetricsLog, step: int, *, last: bool, best: float | None = None
    ) -> float | None:
        logging = self._config.logging
        loss = None
        if self._held and (last or step % logging.evaluate_every == 0):
            loss = self._evaluate(log, step)
        if last or step % logging.image_every == 0:
            self._draw(log, step)
        return loss

    def _evaluate(self, log: MetricsLog, step: int) -> float:
        """Report the held-out loss."""
        with fork_rng():
            inputs = (self.trainer.inputs(batch) for batch in self._held)
            values = self.trainer.report([self.trainer.evaluate(x, step) for x in inputs])
        log.scalars(step, {f"val/{name}": value for name, value in values.items()})
        return values["loss/total"]

    def _draw(self, log: MetricsLog, step: int) -> None:
        """An open-loop picture of held-out windows or, without any, of some that are learned."""
        side = "val" if self._held else "train"
        with fork_rng():
            found = open_loop_windows(self.trainer.model, self.trainer.inputs(self._shown()))
        for key, windows in found.items():
            image = windows.image()
            log.image(step, f"{side}/open_loop/{key}", image)
            log.video(step, f"{side}/open_loop_video/{key}", windows.video())
            save_image(self._run.path / "pictures", key, step, image)

    def advice(self) -> str:
        rate = self._config.optimizer.lr
        if isinstance(rate, Linear):
            lower = rate.override({"start": rate.start / 3, "end": rate.end / 3})
            return f"--set 'optimizer.lr={json.dumps(lower.model_dump())}'"
        return f"--set optimizer.lr={rate / 3:.1g}"

    def tensors(self) -> dict[str, Tensor]:
        return self.trainer.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.trainer.restore(tensors)
