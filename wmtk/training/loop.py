"""The training loop of `train_model`, `train_policy` and `online`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from wmtk.agent.device import tuned_threads
from wmtk.datasets import Batch, Prefetcher, SequenceSampler
from wmtk.datasets.storage import atomic
from wmtk.errors import DivergedError, EnvironmentFailedError
from wmtk.models.rssm import State
from wmtk.models.world_model import Inputs
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors, load_rng_state, rng_state
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.timing import Timer
from wmtk.version import code_version


@dataclass(frozen=True)
class TrainProgress:
    """The state of training, passed to `on_progress` after every update."""

    step: int  # updates so far
    losses: Mapping[str, float]  # of the last report, for a progress line
    waiting: float  # share of the time spent waiting for data


@dataclass(frozen=True)
class Callbacks:
    """Functions that the loop calls."""

    on_progress: Callable[[TrainProgress], None] = lambda _: None  # after every update
    stop: Callable[[], bool] = lambda: False  # after every update; True ends training
    on_note: Callable[[str], None] = lambda _: None  # for each setting that changes on resuming


class Update(NamedTuple):
    """The result of one gradient step."""

    post: State  # posterior states of the batch (B, T, …), without gradient
    metrics: dict[str, Tensor]


@dataclass(frozen=True)
class Report:
    """Metrics of an update as numbers."""

    metrics: Mapping[str, float]
    summary: Mapping[str, float] = field(default_factory=dict)  # for a progress line


@dataclass(frozen=True)
class EvalOutcome:
    """The result of `Trainer.evaluate`."""

    loss: float | None = None  # selects the best checkpoint; None if nothing was measured
    interrupted: bool = False  # True repeats the evaluation when the run is resumed


class Trainer(Protocol):
    """Networks with their optimizers."""

    def inputs(self, batch: Batch) -> Inputs:
        """The batch as tensors on the trainer's device."""

    def update(self, inputs: Inputs, step: int) -> Update:
        """One gradient step; `step` counts from 1."""

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        """The metrics of an update as numbers."""

    def evaluate(
        self, log: MetricsLog, step: int, *, last: bool, best: float | None
    ) -> EvalOutcome:
        """Run the evaluations that are due after an update: held-out losses, images, episodes.

        `best` is the lowest loss so far.
        """

    def recovery_overrides(self) -> dict[str, Any]:
        """Settings that may prevent divergence: lower learning rates."""

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None: ...


class DataSource:
    """Provides the data of a loop. This class is for data that does not change during training."""

    def prepare(self, update: int) -> bool:
        """Collect the data for an update; returns False if a stop was requested meanwhile."""
        return True

    def report(self) -> Mapping[str, float]:
        """Metrics of the data, by full name."""
        return {}

    @property
    def is_complete(self) -> bool:
        """Whether all data is collected, so that `finish` is not needed."""
        return True

    def finish(self) -> Mapping[str, float]:
        """Collect the remaining data after the last update; returns metrics, by full name."""
        return {}

    def state(self) -> Mapping[str, Any]:
        """State to be stored in checkpoints."""
        return {}


class Loop:
    """Updates a trainer on the batches of a sampler; writes checkpoints and metrics of the run."""

    def __init__(
        self,
        run: Run,
        config: TrainingConfig,
        trainer: Trainer,
        sampler: SequenceSampler,
        callbacks: Callbacks,
        data_source: DataSource | None = None,
        timer: Timer | None = None,
    ) -> None:
        self._run, self._config = run, config
        self._trainer, self._sampler, self._callbacks = trainer, sampler, callbacks
        self._data_source, self._timer = data_source or DataSource(), timer or Timer()
        run.checkpoints.keep = config.logging.keep_checkpoints
        self.updates = 0  # in this process
        self.step = 0  # in the whole run
        self._best: float | None = None  # lowest loss of an evaluation
        self._evaluation_due = False  # whether the evaluation of this step is not finished
        self._resumed = False
        self._summary: Mapping[str, float] = {}
        self._waiting = 0.0

    def resume(self) -> None:
        """Load the newest checkpoint, if any, and replace the stored settings by the new ones."""
        self._resumed = True
        checkpoints = self._run.checkpoints
        checkpoints.pointer("best")  # raises before training if the pointer is invalid
        state = self._run.state()
        if state is not None:
            saved = checkpoints.load()
            with checkpoint_errors(saved.path):
                self._trainer.load_state_dict(saved.tensors)
                load_rng_state(saved.tensors)
            self._sampler.load_state_dict(state.sampler.model_dump())
            self.step = saved.step
            self._evaluation_due = state.owes_test
            # Losses of models with other settings are not comparable.
            if state.config.get("model") == self._config.model.model_dump(mode="json"):
                self._best = state.best
        for name, (old, new) in self._run.update_config(self._config).items():
            self._callbacks.on_note(f"From now on {name} is {new}; it was {old}.")

    def run(self, updates: int) -> None:
        """Train until the run has `updates` updates in total, or a stop is requested."""
        if self.step >= updates and not self._evaluation_due and self._data_source.is_complete:
            return
        log = MetricsLog(self._run.path, self.step if self._resumed else None)
        data, cnn_depth = self._config.data, self._config.model.cnn_depth
        with (
            tuned_threads(data.batch_size * data.length, cnn_depth),
            atomic.translate_os_errors(self._run.path),  # logs and images also need disk space
            closing(log),
        ):
            if self._evaluation_due:
                self._save(updates, best=self._evaluate(log, updates))
            if self.step < updates and not self._evaluation_due:
                self._train(updates, log)
            if self.step >= updates and not self._evaluation_due:
                with self._saving_if_an_environment_fails(updates):
                    metrics = self._data_source.finish()
                if metrics:
                    log.scalars(self.step, metrics)

    def _train(self, updates: int, log: MetricsLog) -> None:
        logging = self._config.logging
        with Prefetcher(self._sampler) as batches:
            clock = _Clock(batches, self.step)
            ends = False
            while not ends:
                with self._saving_if_an_environment_fails(updates):
                    ready = self._data_source.prepare(self.step + 1)
                if not ready:
                    self._save(updates, best=False)
                    return
                with self._timer.timed("data wait"):
                    batch = next(batches)
                with self._with_recovery_hint():
                    inputs = self._trainer.inputs(batch)
                    metrics = self._trainer.update(inputs, self.step + 1).metrics
                self.step += 1
                self.updates += 1
                last = self.step == updates
                ends = last or self._callbacks.stop()
                if last or self.step % logging.log_every == 0:
                    self._log(log, metrics, clock)
                is_best = self._evaluate(log, updates)
                ends = ends or self._evaluation_due  # the evaluation was interrupted
                if ends or is_best or self.step % logging.checkpoint_every == 0:
                    self._save(updates, best=is_best)
                self._callbacks.on_progress(TrainProgress(self.step, self._summary, self._waiting))

    def _log(self, log: MetricsLog, metrics: Mapping[str, Tensor], clock: _Clock) -> None:
        report = self._trainer.report(metrics)
        rate, self._waiting = clock.lap(self.step)
        times = {"time/updates_per_second": rate, "time/data_wait": self._waiting}
        values = {f"train/{name}": value for name, value in report.metrics.items()}
        log.scalars(self.step, {**values, **times, **self._data_source.report()})
        self._summary = report.summary

    def _evaluate(self, log: MetricsLog, updates: int) -> bool:
        """Evaluate the trainer; returns whether its weights are the best so far."""
        self._evaluation_due = True  # in the checkpoint that is saved if an environment fails
        last = self.step >= updates
        with self._saving_if_an_environment_fails(updates), self._with_recovery_hint():
            outcome = self._trainer.evaluate(log, self.step, last=last, best=self._best)
        self._evaluation_due = outcome.interrupted
        if outcome.loss is None or (self._best is not None and not outcome.loss < self._best):
            return False
        self._best = outcome.loss
        return True

    @contextmanager
    def _saving_if_an_environment_fails(self, updates: int) -> Iterator[None]:
        try:
            yield
        except EnvironmentFailedError as error:
            self._save(updates, best=False)
            hint = f"A checkpoint is saved: resume=True continues from it. {error.hint}"
            raise EnvironmentFailedError(error.message, hint) from error

    @contextmanager
    def _with_recovery_hint(self) -> Iterator[None]:
        """Add to the hint of `DivergedError` how to resume: checkpoint and settings."""
        try:
            yield
        except DivergedError as error:
            raise DivergedError(error.message, f"{error.hint}\n{self._recovery_hint()}") from error

    def _recovery_hint(self) -> str:
        if not self._run.step:
            return "There is no checkpoint yet: start a new run."
        overrides = self._trainer.recovery_overrides().items()
        settings = " ".join(f"{name}={value}" for name, value in overrides)
        return (
            f"The checkpoint of update {self._run.step} is kept; continue from it with "
            f"resume=True {settings}"
        )

    def _save(self, updates: int, *, best: bool) -> None:
        if not self.step:
            return
        state = {
            "sampler": self._sampler.state_dict(),
            "best": self._best,
            "owes_test": self._evaluation_due,
            "steps": updates,
            "data": self._run.about["data"],
            "config": self._config.model_dump(),
            "code_version": code_version(),
            **self._data_source.state(),
        }
        with self._timer.timed("saving"):
            tensors = self._trainer.state_dict() | rng_state()
            self._run.checkpoints.save(self.step, tensors, state, best=best)


class _Clock:
    """Measures the speed of training between reports."""

    def __init__(self, batches: Prefetcher, step: int) -> None:
        self._batches = batches
        self._now, self._step, self._waited = time.monotonic(), step, 0.0

    def lap(self, step: int) -> tuple[float, float]:
        """Updates per second, and the share of the time spent waiting for data."""
        now, waited = time.monotonic(), self._batches.waited
        seconds = max(now - self._now, 1e-9)
        rate, share = (step - self._step) / seconds, (waited - self._waited) / seconds
        self._now, self._step, self._waited = now, step, waited
        return rate, min(share, 1.0)
