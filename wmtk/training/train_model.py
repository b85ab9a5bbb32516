"""The second stage: a world model from datasets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wmtk.datasets import Dataset, Prefetcher, SequenceSampler, Source
from wmtk.errors import RunError, UsageError
from wmtk.training.cadence import Cadence
from wmtk.training.checkpoint import random_tensors, restore_random
from wmtk.training.data import make_sampler
from wmtk.training.metrics import MetricsLog
from wmtk.training.model_trainer import ModelTrainer
from wmtk.training.presets import TrainingConfig
from wmtk.training.run import Run


@dataclass(frozen=True)
class TrainProgress:
    """How far training is, handed to `on_progress` after every update."""

    step: int
    losses: Mapping[str, float]  # of the last report
    waited: float  # seconds spent waiting for data


def train_model(
    sources: Sequence[Source],
    out: Path,
    config: TrainingConfig,
    *,
    steps: int,
    seed: int = 0,
    val_fraction: float = 0.1,
    device: str = "cpu",
    resume: bool = False,
    on_progress: Callable[[TrainProgress], None] = lambda _: None,
) -> Run:
    """Train a world model for `steps` updates in all, in a run directory."""
    data = [_identity(source.dataset) for source in sources]
    if resume and (out / "run.json").exists():
        run = Run(out)
        config = TrainingConfig.build(run.config())
        _require_same_data(run, data)
        seed, val_fraction = run.about["seed"], run.about["val_fraction"]
    else:
        schema = sources[0].dataset.schema.to_json()
        about = {"seed": seed, "val_fraction": val_fraction, "data": data, "schema": schema}
        about["env"] = dict(sources[0].dataset.env)
        run = Run.create(out, "model", config, about)
    run.note_command()
    torch.manual_seed(seed)
    trainer = ModelTrainer(config, sources[0].dataset.schema, torch.device(device))
    train = make_sampler(config.data, sources, seed, val_fraction=val_fraction)
    held = _held_out(config, sources, seed, val_fraction)
    training = _Training(run, trainer, train, held, config.cadence, on_progress)
    training.run(steps)
    return run


def _identity(dataset: Dataset) -> dict[str, Any]:
    return {"path": str(dataset.path), "id": dataset.id, "version": dataset.version}


def _require_same_data(run: Run, data: Sequence[Mapping[str, Any]]) -> None:
    def keys(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
        return [(item["id"], item["version"]) for item in items]

    if keys(run.about["data"]) != keys(data):
        raise RunError(
            f"{run.path} was trained on other data: {run.about['data']} instead of {list(data)}.",
            "Resume with the same datasets at the same versions (a tag keeps one), or start anew.",
        )


def _held_out(
    config: TrainingConfig, sources: Sequence[Source], seed: int, fraction: float
) -> SequenceSampler | None:
    if not fraction:
        return None
    try:
        return make_sampler(config.data, sources, seed, val_fraction=fraction, held_out=True)
    except UsageError as error:
        raise UsageError(
            "There are too few episodes to hold some out for validation.",
            "Collect more, or train on all of them with --val-fraction 0.",
        ) from error


class _Training:
    """The loop of updates, with reports, evaluation and checkpoints."""

    def __init__(
        self,
        run: Run,
        trainer: ModelTrainer,
        train: SequenceSampler,
        held: SequenceSampler | None,
        cadence: Cadence,
        on_progress: Callable[[TrainProgress], None],
    ) -> None:
        self._run, self._trainer, self._train, self._held = run, trainer, train, held
        self._cadence = cadence
        self._on_progress = on_progress
        self._step = 0
        self._best: float | None = None  # the lowest held-out loss so far
        self._shown: dict[str, float] = {}

    def _restore(self) -> int | None:
        if self._run.checkpoints.pointer("latest") is None:
            return None
        saved = self._run.checkpoints.load()
        self._trainer.restore(saved.tensors)
        restore_random(saved.tensors)
        self._train.restore(saved.state["sampler"])
        self._step, self._best = saved.step, saved.state["best"]
        return saved.step

    def run(self, steps: int) -> None:
        log = MetricsLog(self._run.path, self._restore())
        cadence = self._cadence
        began, first = time.monotonic(), self._step
        try:
            with Prefetcher(self._train) as batches:
                while self._step < steps:
                    batch = next(batches)
                    self._step += 1
                    _, metrics = self._trainer.update(self._trainer.inputs(batch), self._step)
                    last = self._step == steps
                    if self._step % cadence.log == 0 or last:
                        rate = (self._step - first) / (time.monotonic() - began)
                        waiting = batches.waited / (time.monotonic() - began)
                        extra = {"time/updates_per_second": rate, "time/data_wait": waiting}
                        self._shown = _plain("train", metrics) | extra
                        log.scalars(self._step, self._shown)
                    better = False
                    if self._step % cadence.evaluate == 0 or last:
                        better = self._evaluate(log)
                    if self._step % cadence.checkpoint == 0 or last or better:
                        self._save(best=better)
                    self._on_progress(TrainProgress(self._step, self._shown, batches.waited))
        finally:
            log.close()

    def _evaluate(self, log: MetricsLog) -> bool:
        """Report the held-out loss; returns whether it is the lowest so far."""
        if self._held is None:
            return False
        totals: dict[str, float] = {}
        count = self._cadence.held_out_batches
        # A generator of its own: how often this is done must not change what is learnt.
        with torch.random.fork_rng():
            torch.manual_seed(0)
            for number in range(count):
                inputs = self._trainer.inputs(self._held.sample(number))
                for name, value in _plain("val", self._trainer.evaluate(inputs)).items():
                    totals[name] = totals.get(name, 0.0) + value / count
        log.scalars(self._step, totals)
        loss = totals["val/loss/total"]
        if self._best is not None and loss >= self._best:
            return False
        self._best = loss
        return True

    def _save(self, *, best: bool) -> None:
        state = {"sampler": self._train.state(), "best": self._best}
        tensors = self._trainer.tensors() | random_tensors()
        self._run.checkpoints.save(self._step, tensors, state, best=best)


def _plain(prefix: str, metrics: Mapping[str, Tensor]) -> dict[str, float]:
    return {f"{prefix}/{name}": float(value) for name, value in metrics.items()}
