"""The second stage: a world model from datasets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from wmtk.datasets import Batch, Prefetcher, SequenceSampler, Source, durable
from wmtk.errors import DivergedError, RunError
from wmtk.training.checkpoint import own_randomness, random_tensors, restore_random
from wmtk.training.data import held_out_batches, make_sampler, require_same_spaces
from wmtk.training.memory import exhaustion_explained
from wmtk.training.metrics import MetricsLog
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.openloop import open_loop_pictures, save_picture
from wmtk.training.presets import TrainingConfig
from wmtk.training.run import Run
from wmtk.training.sources import as_before, identity
from wmtk.version import code_version

VAL_FRACTION = 0.1


@dataclass(frozen=True)
class TrainProgress:
    """How far training is, handed to `on_progress` after every update."""

    step: int
    losses: Mapping[str, float]  # of the last report, by term and without constants
    waiting: float  # share of the time that was spent waiting for data


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
    on_progress: Callable[[TrainProgress], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a world model for `steps` updates in all, in a run directory.

    `resume` goes on with a run that is there already, with these settings, and with its own seed
    and held-out episodes. `stop` is asked after every update; if it says so, a checkpoint is
    saved and training ends early. What cannot work is refused before anything is written.
    """
    run = Run(out) if resume and (out / "run.json").exists() else None
    if run is None:
        Run.require_vacant(out)
    else:
        sources = as_before(run, sources)
    require_same_spaces(sources)
    seed = int(_kept(run, "seed", seed, 0))
    fraction = float(_kept(run, "val_fraction", val_fraction, VAL_FRACTION))
    train = make_sampler(config.data, sources, seed, val_fraction=fraction)
    count = config.cadence.held_out_batches
    held = held_out_batches(config.data, sources, seed, fraction, count) if fraction else []
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
    begun = run or Run.create(out, "model", config, about)
    training = _Training(begun, config, trainer, train, held, on_progress, stop)
    try:
        with begun.held():
            if run is not None:
                training.restore()
                begun.change_config(config)
            begun.note_command()
            training.run(steps)
    except BaseException:
        if run is None and not training.updates:
            durable.remove_tree(out)  # nothing was learnt: the next attempt needs no other name
        raise
    return begun


def _kept(run: Run | None, name: str, asked: float | None, default: float) -> float:
    """What a run began with, which nobody may want to be different later."""
    if run is None:
        return default if asked is None else asked
    kept: float = run.about[name]
    if asked is not None and asked != kept:
        option = f"--{name.replace('_', '-')}"
        raise RunError(
            f"{run.path} was begun with {option} {kept}, not {asked}.",
            f"Leave {option} out on resuming, or start a new run.",
        )
    return kept


class _Training:
    """The loop of updates, with reports, evaluation, pictures and checkpoints."""

    def __init__(
        self,
        run: Run,
        config: TrainingConfig,
        trainer: ModelTrainer,
        train: SequenceSampler,
        held: Sequence[Batch],
        on_progress: Callable[[TrainProgress], None],
        stop: Callable[[], bool],
    ) -> None:
        self._run, self._config, self._trainer = run, config, trainer
        self._train, self._held = train, held
        self._on_progress, self._stop = on_progress, stop
        self.updates = 0  # made by this process
        self._step = 0
        self._best: float | None = None  # the lowest held-out loss so far
        self._resumed = False
        self._losses: dict[str, float] = {}
        self._waiting = 0.0

    def restore(self) -> None:
        """Go on where the newest checkpoint was saved; without one, from the beginning."""
        self._resumed = True
        if not self._run.step:
            return
        saved = self._run.checkpoints.load()
        self._trainer.restore(saved.tensors)
        restore_random(saved.tensors)
        self._train.restore(saved.state["sampler"])
        self._step, self._best = saved.step, saved.state["best"]

    def run(self, steps: int) -> None:
        """Update until there were `steps` of them, or somebody says stop."""
        if self._step >= steps:
            return
        cadence = self._config.cadence
        log = MetricsLog(self._run.path, self._step if self._resumed else None)
        with closing(log), Prefetcher(self._train) as batches:
            clock = _Clock(batches, self._step)
            ends = False
            while not ends:
                metrics = self._update(batches)
                last = self._step == steps
                ends = last or self._stop()
                if last or self._step % cadence.log == 0:
                    self._report(log, metrics, clock)
                better = False
                if self._held and (last or self._step % cadence.evaluate == 0):
                    better = self._evaluate(log)
                if last or self._step % cadence.picture == 0:
                    self._draw(log)
                if ends or better or self._step % cadence.checkpoint == 0:
                    self._save(steps, best=better)
                self._on_progress(TrainProgress(self._step, self._losses, self._waiting))

    def _update(self, batches: Prefetcher) -> Mapping[str, Tensor]:
        step = self._step + 1
        try:
            with exhaustion_explained(self._trainer, self._config.data, step):
                _, metrics = self._trainer.update(self._trainer.inputs(next(batches)), step)
        except DivergedError as error:
            raise DivergedError(error.message, f"{error.hint}\n{self._last_good()}") from error
        self._step = step
        self.updates += 1
        return metrics

    def _last_good(self) -> str:
        if not self._run.step:
            return "There was no checkpoint yet: begin anew with --out at another place."
        return (
            f"The checkpoint of update {self._run.step} is kept; go on from it with "
            f"--resume --set optimizer.rate={self._trainer.rate / 3:.1g}"
        )

    # --- looking ---

    def _report(self, log: MetricsLog, metrics: Mapping[str, Tensor], clock: _Clock) -> None:
        values = self._trainer.report([metrics])
        self._losses = self._trainer.terms(values)
        rate, self._waiting = clock.lap(self._step)
        named = {f"train/{name}": value for name, value in values.items()}
        named["train/rate/model"] = self._trainer.rate
        named |= {"time/updates_per_second": rate, "time/data_wait": self._waiting}
        log.scalars(self._step, named)

    def _evaluate(self, log: MetricsLog) -> bool:
        """Report the held-out loss; returns whether it is the lowest so far."""
        with own_randomness():
            inputs = (self._trainer.inputs(batch) for batch in self._held)
            values = self._trainer.report([self._trainer.evaluate(x) for x in inputs])
        log.scalars(self._step, {f"val/{name}": value for name, value in values.items()})
        loss = values["loss/total"]
        if self._best is not None and not loss < self._best:
            return False
        self._best = loss
        return True

    def _draw(self, log: MetricsLog) -> None:
        """An open-loop picture of held-out windows or, without any, of some that are learnt."""
        batch = self._held[0] if self._held else self._train.sample(0)
        side = "val" if self._held else "train"
        with own_randomness():
            pictures = open_loop_pictures(self._trainer.model, self._trainer.inputs(batch))
        for key, picture in pictures.items():
            log.image(self._step, f"{side}/open_loop/{key}", picture)
            save_picture(self._run.path / "pictures", key, self._step, picture)

    # --- saving ---

    def _save(self, steps: int, *, best: bool) -> None:
        state = {
            "sampler": self._train.state(),
            "best": self._best,
            "steps": steps,
            "data": self._run.about["data"],
            "config": self._config.model_dump(),
            "code_version": code_version(),
        }
        tensors = self._trainer.tensors() | random_tensors()
        self._run.checkpoints.save(self._step, tensors, state, best=best)


class _Clock:
    """How fast training is, from one report to the next."""

    def __init__(self, batches: Prefetcher, step: int) -> None:
        self._batches = batches
        self._now, self._step, self._waited = time.monotonic(), step, 0.0

    def lap(self, step: int) -> tuple[float, float]:
        """Updates per second, and the share of the time that was spent waiting for data."""
        now, waited = time.monotonic(), self._batches.waited
        seconds = max(now - self._now, 1e-9)
        rate, share = (step - self._step) / seconds, (waited - self._waited) / seconds
        self._now, self._step, self._waited = now, step, waited
        return rate, min(share, 1.0)
