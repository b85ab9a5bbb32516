"""The metrics of runs, computed during playback; models run in the inference thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict
from typing import Any

from numpy.typing import NDArray

from wmtk.agent.outputs import OpenLoop, Posterior
from wmtk.datasets import Batch, Schema
from wmtk.errors import WmtkError
from wmtk.viz.evaluation.differences import Difference, compute_differences
from wmtk.viz.evaluation.measurements import SAMPLES, Measurements, Predictor, measure
from wmtk.viz.evaluation.model_metrics import DEFINITIONS, ModelMetrics, compute_metrics
from wmtk.viz.evaluation.verdict import verdict
from wmtk.viz.live import protocol
from wmtk.viz.live.catalog import Catalog, DataEntry
from wmtk.viz.live.engine import Engine
from wmtk.viz.live.player import Page
from wmtk.viz.metrics import Estimate
from wmtk.viz.windows import CONTEXT, batches, choose_windows, common_held_out


class _StoppedError(Exception):
    """The page stopped the job or was closed."""


class _SharedModel:
    """A model that runs in the inference thread, between steps of players."""

    def __init__(self, model: Predictor, engine: Engine, job: _Job) -> None:
        self._model, self._engine, self._job = model, engine, job

    @property
    def schema(self) -> Schema:
        return self._model.schema

    @property
    def gamma(self) -> float | None:
        return self._model.gamma

    @property
    def policy_horizon(self) -> int:
        return self._model.policy_horizon

    def preprocess(self, batch: Batch) -> Batch:
        return self._model.preprocess(batch)

    def observe_batch(self, batch: Batch, seed: int = 0) -> Posterior:
        self._job.check()
        return self._engine.call(lambda: self._model.observe_batch(batch, seed))

    def predict_batch(
        self, batch: Batch, *, context: int, horizon: int, samples: int = 1, seed: int = 0
    ) -> OpenLoop:
        self._job.check()
        return self._engine.call(
            lambda: self._model.predict_batch(
                batch, context=context, horizon=horizon, samples=samples, seed=seed
            )
        )


class MetricsRunner:
    """Runs one job per page; a new job replaces the previous one."""

    def __init__(self, catalog: Catalog, engine: Engine) -> None:
        self._catalog, self._engine = catalog, engine
        self._jobs: dict[int, _Job] = {}

    def start(self, page: Page, message: protocol.Measure) -> None:
        self.stop(page)
        if message.runs:
            job = _Job(self._catalog, self._engine, page, message)
            self._jobs[id(page)] = job
            threading.Thread(target=job.run, name="wmtk-metrics", daemon=True).start()

    def stop(self, page: Page) -> None:
        job = self._jobs.pop(id(page), None)
        if job is not None:
            job.stopped = True

    def stop_all(self) -> None:
        for job in self._jobs.values():
            job.stopped = True


class _Job:
    def __init__(
        self, catalog: Catalog, engine: Engine, page: Page, message: protocol.Measure
    ) -> None:
        self._catalog, self._engine, self._page, self._message = catalog, engine, page, message
        self.stopped = False

    def check(self) -> None:
        if self.stopped:
            raise _StoppedError

    def run(self) -> None:
        try:
            self._measure()
        except (_StoppedError, CancelledError):
            pass
        except WmtkError as error:
            self._page.send_event("measured", error=error.message, hint=error.hint)
        except Exception as error:
            self._page.send_event("measured", error=f"{type(error).__name__}: {error}", hint="")

    def _measure(self) -> None:
        data, runs = self._catalog.data(self._message.data), self._message.runs
        windows, note = self._windows(data)
        measurements: list[Measurements] = []
        for number, run in enumerate(runs):
            measurements.append(self._measurements(run, number, windows))
        results = []
        for run, measured in zip(runs, measurements, strict=True):
            self.check()
            self._progress(f"Computing the metrics of {self._catalog.run(run).name}", 1, 1)
            results.append(_summary(run, compute_metrics(measured, factors=False)))
        self.check()
        self._page.send_event(
            "measured",
            data=self._message.data,
            note=note,
            windows=sum(len(batch.reward) for batch in windows),
            context=CONTEXT,
            samples=SAMPLES,
            definitions=DEFINITIONS,
            results=results,
            differences=[_difference(d) for d in compute_differences(measurements)]
            if len(measurements) > 1
            else [],
        )

    def _windows(self, data: DataEntry) -> tuple[list[Batch], str]:
        """Windows of episodes that are held out from the training of every run."""
        runs = [self._catalog.run(run) for run in self._message.runs]
        with data.lock:
            held_out = [run.held_out(data.dataset) for run in runs]
            windows = choose_windows(
                data.dataset.episodes,
                common_held_out(data.name, held_out),
                context=CONTEXT,
                horizon=self._message.horizon,
                count=self._message.windows,
            )
            length = max(window.rows for window in windows)
            read_windows = list(batches(data.dataset, windows, length))
        return read_windows, "; ".join(dict.fromkeys(each.note for each in held_out))

    def _measurements(self, run: str, number: int, windows: Sequence[Batch]) -> Measurements:
        engine, name = self._engine, self._catalog.run(run).name
        self._progress(f"Opening {name}", number, len(self._message.runs))
        stepper = engine.call(lambda: engine.models.borrow(run))
        try:
            return measure(
                _SharedModel(stepper.loaded, engine, self),
                windows,
                context=CONTEXT,
                samples=SAMPLES,
                on_window=lambda done, total: self._progress(f"Evaluating {name}", done, total),
            )
        finally:
            engine.call(lambda: engine.models.give_back(run))

    def _progress(self, text: str, done: int, total: int) -> None:
        self.check()
        self._page.send_event("measuring", text=text, done=done, total=total)


def _summary(run: str, metrics: ModelMetrics) -> dict[str, Any]:
    """The metrics that the page shows."""
    return {
        "run": run,
        "verdict": asdict(verdict(metrics)),
        "reliable_steps": metrics.reliable_steps,
        "steps_above_baselines": metrics.steps_above_baselines,
        "horizon": metrics.horizon,
        "episodes": metrics.episodes,
        "obs": {
            key: {
                "image": quality.image,
                "score": _curve(quality.score),
                "ceiling": _curve(quality.ceiling),
                "copy": _curve(quality.copy),
                "average": _curve(quality.average),
                "skill": _curve(quality.skill),
            }
            for key, quality in metrics.obs.items()
        },
        "kl": float(metrics.kl.value),
        "entropy": float(metrics.entropy_prior.value),
        "dead": None if metrics.codes is None else float(metrics.codes.dead.mean()),
    }


def _curve(estimate: Estimate) -> dict[str, NDArray[Any]]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _difference(difference: Difference) -> dict[str, Any]:
    others = range(len(difference.differences))
    return {
        "name": difference.name,
        "values": difference.values,
        "outcomes": [difference.outcome(other) for other in others],
    }
