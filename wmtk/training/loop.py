"""The loop of updates that the training stages share: reports, checkpoints, resuming."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from wmtk.datasets import Batch, Prefetcher, SequenceSampler
from wmtk.datasets.storage import atomic
from wmtk.errors import DivergedError, EnvironmentFailedError, RunError
from wmtk.runs.metrics_log import MetricsLog
from wmtk.runs.run_directory import Run
from wmtk.runs.state_dict import checkpoint_errors, load_rng_state, rng_state
from wmtk.runs.training_config import TrainingConfig
from wmtk.training.timing import Timer
from wmtk.version import code_version


@dataclass(frozen=True)
class TrainProgress:
    """How far training is, handed to `on_progress` after every update."""

    step: int
    losses: Mapping[str, float]  # of the last report: the few that are worth showing
    waiting: float  # share of the time that was spent waiting for data


@dataclass(frozen=True)
class Callbacks:
    """Who watches a training: told after every update, and asked whether to stop."""

    on_progress: Callable[[TrainProgress], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    on_note: Callable[[str], None] = lambda _: None  # told each setting that has changed


@dataclass(frozen=True)
class Report:
    """What an update came to."""

    values: Mapping[str, float]  # to be logged, by full name
    shown: Mapping[str, float] = field(default_factory=dict)  # worth showing while it runs


class Stage(Protocol):
    """What a loop trains."""

    def update(self, batch: Batch, step: int) -> Mapping[str, Tensor]:
        """One gradient step; what to log."""

    def report(self, metrics: Mapping[str, Tensor]) -> Report:
        """What `update` returned, in numbers."""

    interrupted: bool  # whether the last `look` was stopped before its test was over

    def look(self, log: MetricsLog, step: int, *, last: bool, best: float | None) -> float | None:
        """Whatever is due besides updates; the loss by which a checkpoint is the best, if any.

        `best` is the lowest such loss so far.
        """

    def advice(self) -> str:
        """Options that may help after numbers went wrong."""

    def tensors(self) -> dict[str, Tensor]: ...

    def restore(self, tensors: Mapping[str, Tensor]) -> None: ...


class DataSource:
    """Sees to the data while a loop runs. This one has nothing to do: all of it is there."""

    def prepare(self, update: int) -> bool:
        """Have the data that an update needs; False if somebody said stop meanwhile."""
        return True

    def report(self) -> Mapping[str, float]:
        """What to log beside what an update came to, by full name."""
        return {}

    @property
    def is_complete(self) -> bool:
        """Whether `finish` has nothing to do."""
        return True

    def finish(self) -> Mapping[str, float]:
        """Complete the data after the last update; what to log, nothing if nothing came."""
        return {}

    def state(self) -> Mapping[str, Any]:
        """What a checkpoint is to remember."""
        return {}


class Loop:
    """Updates of a stage from the batches of a sampler, in a run directory."""

    def __init__(
        self,
        run: Run,
        config: TrainingConfig,
        stage: Stage,
        sampler: SequenceSampler,
        watch: Callbacks,
        feed: DataSource | None = None,
        parts: Timer | None = None,
    ) -> None:
        self._run, self._config = run, config
        self._stage, self._sampler, self._watch = stage, sampler, watch
        self._feed, self._parts = feed or DataSource(), parts or Timer()
        run.checkpoints.keep = config.logging.keep_checkpoints
        self.updates = 0  # made by this process
        self.step = 0  # how many were ever made
        self._best: float | None = None  # the lowest loss that the stage looked at so far
        self._owes_test = False  # whether the test of this step is still to be made
        self._resumed = False
        self._shown: Mapping[str, float] = {}
        self._waiting = 0.0

    def restore(self) -> None:
        """Go on where the newest checkpoint was saved; without one, from the beginning."""
        self._resumed = True
        checkpoints = self._run.checkpoints
        checkpoints.pointer("best")  # raises now rather than when the next one is saved
        state = self._run.state()
        if state is None:
            return
        saved = checkpoints.load()
        with checkpoint_errors(saved.path):
            self._stage.restore(saved.tensors)
            load_rng_state(saved.tensors)
        self._sampler.load_state_dict(state.sampler.model_dump())
        self.step = saved.step
        self._owes_test = state.owes_test
        # What was the best by another loss says nothing about this one.
        if state.config.get("model") == self._config.model.model_dump(mode="json"):
            self._best = state.best

    def begin(self, *, resumed: bool) -> None:
        """Restore a run that is resumed, and take on its new settings; says what changes."""
        if resumed:
            self.restore()
            for name, (old, new) in self._run.update_config(self._config).items():
                self._watch.on_note(f"From now on {name} is {new}; it was {old}.")

    def run(self, steps: int) -> None:
        """Update until there were `steps` of them, or somebody says stop."""
        if self.step >= steps and not self._owes_test and self._feed.is_complete:
            return
        log = MetricsLog(self._run.path, self.step if self._resumed else None)
        with (
            atomic.translate_os_errors(self._run.path),
            closing(log),
        ):
            if self._owes_test:  # which was interrupted
                self._save(steps, best=self._look(log, steps))
            if self.step < steps and not self._owes_test:
                self._train(steps, log)
            if self.step >= steps and not self._owes_test:
                with self._saving_if_an_environment_fails(steps):
                    values = self._feed.finish()
                if values:
                    log.scalars(self.step, values)

    def _train(self, steps: int, log: MetricsLog) -> None:
        logging = self._config.logging
        with Prefetcher(self._sampler) as batches:
            clock = _Clock(batches, self.step)
            ends = False
            while not ends:
                with self._saving_if_an_environment_fails(steps):
                    ready = self._feed.prepare(self.step + 1)
                if not ready:
                    self._save(steps, best=False)
                    return
                with self._parts.timed("data wait"):
                    batch = next(batches)
                metrics = self._update(batch)
                last = self.step == steps
                ends = last or self._watch.stop()
                if last or self.step % logging.log_every == 0:
                    self._report(log, metrics, clock)
                better = self._look(log, steps)
                ends = ends or self._owes_test  # the test was interrupted
                if ends or better or self.step % logging.checkpoint_every == 0:
                    self._save(steps, best=better)
                self._watch.on_progress(TrainProgress(self.step, self._shown, self._waiting))

    def _look(self, log: MetricsLog, steps: int) -> bool:
        """Let the stage do what is due at this step; whether the weights are the best so far."""
        self._owes_test = True  # until it is over, also in what an environment's failure saves
        with self._saving_if_an_environment_fails(steps), self._advising():
            last = self.step >= steps
            loss = self._stage.look(log, self.step, last=last, best=self._best)
        self._owes_test = self._stage.interrupted
        return self._is_better(loss)

    @contextmanager
    def _saving_if_an_environment_fails(self, steps: int) -> Iterator[None]:
        try:
            yield
        except EnvironmentFailedError as error:
            self._save(steps, best=False)
            hint = f"Everything is saved: --resume goes on. {error.hint}"
            raise EnvironmentFailedError(error.message, hint) from error

    def _update(self, batch: Batch) -> Mapping[str, Tensor]:
        step = self.step + 1
        with self._advising():
            metrics = self._stage.update(batch, step)
        self.step = step
        self.updates += 1
        return metrics

    @contextmanager
    def _advising(self) -> Iterator[None]:
        """Let errors about numbers say what to go on from."""
        try:
            yield
        except DivergedError as error:
            raise DivergedError(error.message, f"{error.hint}\n{self._last_good()}") from error

    def _last_good(self) -> str:
        if not self._run.step:
            return "There was no checkpoint yet: begin anew with --out at another place."
        return (
            f"The checkpoint of update {self._run.step} is kept; go on from it with "
            f"--resume {self._stage.advice()}"
        )

    def _report(self, log: MetricsLog, metrics: Mapping[str, Tensor], clock: _Clock) -> None:
        report = self._stage.report(metrics)
        rate, self._waiting = clock.lap(self.step)
        times = {"time/updates_per_second": rate, "time/data_wait": self._waiting}
        log.scalars(self.step, {**report.values, **times, **self._feed.report()})
        self._shown = report.shown

    def _is_better(self, loss: float | None) -> bool:
        if loss is None or (self._best is not None and not loss < self._best):
            return False
        self._best = loss
        return True

    def _save(self, steps: int, *, best: bool) -> None:
        if not self.step:
            return
        state = {
            "sampler": self._sampler.state_dict(),
            "best": self._best,
            "owes_test": self._owes_test,
            "steps": steps,
            "data": self._run.about["data"],
            "config": self._config.model_dump(),
            "code_version": code_version(),
            **self._feed.state(),
        }
        with self._parts.timed("saving"):
            tensors = self._stage.tensors() | rng_state()
            self._run.checkpoints.save(self.step, tensors, state, best=best)


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


# --- run directories ---


def existing_run(out: Path, kind: str, *, resume: bool) -> Run | None:
    """The run to go on with; None if it is to be begun, which a path in use prevents."""
    if not resume or not os.path.lexists(out / "run.json"):
        Run.require_vacant(out)
        return None
    run = Run(out)
    if run.kind != kind:
        command = run.kind if run.kind == "online" else f"train-{run.kind}"
        raise RunError(
            f"{out} is a {run.kind} run, not one of kind {kind}.",
            f"Resume it with `wmtk {command}`, or choose another --out.",
        )
    return run


def resolve_resumed(run: Run | None, name: str, asked: float | None, default: float) -> float:
    """What a run began with, which nobody may want to be different later."""
    if run is None:
        return default if asked is None else asked
    before: float = run.about[name]  # there, by the schema of run.json
    if asked is not None and asked != before:
        option = f"--{name.replace('_', '-')}"
        raise RunError(
            f"{run.path} was begun with {option} {before}, not {asked}.",
            f"Leave {option} out on resuming, or start a new run.",
        )
    return before


def train(loop: Loop, run: Run, steps: int, *, resumed: bool) -> Run:
    """Run the loop in its directory; one in which nothing was learned is removed again."""
    with run_lock(run, lambda: resumed or loop.updates > 0):
        loop.begin(resumed=resumed)
        run.append_command()
        loop.run(steps)
    return run


@contextmanager
def run_lock(run: Run, is_worth_keeping: Callable[[], bool]) -> Iterator[None]:
    """Keep others out of a run directory; if an error leaves it worthless, it is removed."""
    try:
        with run.lock():
            yield
    except BaseException:
        if not is_worth_keeping():
            atomic.remove_tree(run.path)  # the next attempt needs no other name
        raise
