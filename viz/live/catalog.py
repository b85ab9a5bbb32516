"""The runs and datasets of the page by id; messages contain no paths."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from wmtk.datasets import Dataset, Schema
from wmtk.envs import ResolvedTask
from wmtk.errors import UsageError, WmtkError
from wmtk.viz.windows import HeldOut

if TYPE_CHECKING:
    from wmtk.agent.stepper import ModelStepper  # needs torch, which --human does not


@dataclass(frozen=True)
class RunEntry:
    """A run that can be opened."""

    name: str
    kind: str
    update: int
    about: Mapping[str, Any]  # run.json
    schema: Schema
    config: Mapping[str, Any]
    open: Callable[[], ModelStepper]
    task: Callable[[], ResolvedTask]  # raises if the task is unknown or not trusted
    held_out: Callable[[Dataset], HeldOut]  # episodes that training did not use


@dataclass
class DataEntry:
    """An open dataset; `lock` serializes readers."""

    name: str
    dataset: Dataset
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class RecordingTarget:
    """The task that a person plays and the dataset that stores the episodes."""

    task: ResolvedTask
    dataset: Dataset
    seed: int


class Catalog:
    """Runs r0, r1, … and datasets d0, d1, … in the order of the command line."""

    def __init__(
        self, runs: list[RunEntry], datasets: list[DataEntry], target: RecordingTarget | None = None
    ) -> None:
        self.runs = {f"r{i}": run for i, run in enumerate(runs)}
        self.datasets = {f"d{i}": data for i, data in enumerate(datasets)}
        self.target = target

    def run(self, id: str | None) -> RunEntry:
        if id not in self.runs:
            raise UsageError(f"There is no run {id!r}.", "Reload the page.")
        return self.runs[id]

    def data(self, id: str | None) -> DataEntry:
        if id not in self.datasets:
            raise UsageError(f"There is no dataset {id!r}.", "Reload the page.")
        return self.datasets[id]

    def describe(self) -> dict[str, Any]:
        """The content of the menus."""
        return {
            "runs": [self._run(id, run) for id, run in self.runs.items()],
            "datasets": [_data(id, entry) for id, entry in self.datasets.items()],
            "record": None if self.target is None else _target(self.target),
        }

    def _run(self, id: str, run: RunEntry) -> dict[str, Any]:
        env = run.about.get("env", {})
        return {
            "id": id,
            "name": run.name,
            "kind": run.kind,
            "update": run.update,
            "task": env.get("task") or env.get("env_id") or "",
            "created": run.about.get("created", ""),
            "trainedOn": [PurePath(item["path"]).name for item in run.about.get("data", [])],
            "obs": {key: str(spec) for key, spec in run.schema.obs.items()},
            "action": str(run.schema.action),
            "latent": _latent(run.config),
            "fits": [d for d, e in self.datasets.items() if fits(run.schema, e.dataset.schema)],
            "real": _has_task(run),
        }


def fits(model: Schema, data: Schema) -> bool:
    """Whether a dataset has the observations and actions of a model."""

    def arrays(schema: Schema) -> dict[str, Any]:
        return {key: (spec.shape, spec.dtype) for key, spec in schema.obs.items()}

    available, action = arrays(data), data.action
    same = model.action.kind == action.kind and model.action.shape == action.shape
    if same and action.kind != "box":
        same = (model.action.low, model.action.high) == (action.low, action.high)
    return same and all(available.get(key) == spec for key, spec in arrays(model).items())


def _data(id: str, entry: DataEntry) -> dict[str, Any]:
    dataset = entry.dataset
    env = dataset.env
    return {
        "id": id,
        "name": entry.name,
        "task": env.get("task") or env.get("env_id") or env.get("id") or "",
        "episodes": len(dataset),
        "steps": dataset.num_steps,
        "version": dataset.version,
        "images": [key for key, spec in dataset.schema.obs.items() if spec.is_image],
    }


def _target(target: RecordingTarget) -> dict[str, Any]:
    return {"task": target.task.task, "name": target.dataset.path.name}


def _latent(config: Mapping[str, Any]) -> str:
    rssm = config.get("model", {}).get("rssm", {})
    kind, stoch, classes = (rssm.get(key) for key in ("latent", "stoch", "classes"))
    return f"{stoch} × {classes} categorical" if kind == "categorical" else f"{stoch} {kind}"


def _has_task(run: RunEntry) -> bool:
    try:
        run.task()
    except WmtkError:
        return False
    return True


class ModelPool:
    """Open models, shared by the pages; a model is freed when its last user returns it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._open: dict[str, ModelStepper] = {}
        self._users: dict[str, int] = {}

    def borrow(self, run: str) -> ModelStepper:
        if run not in self._open:
            self._open[run] = self._catalog.run(run).open()
        self._users[run] = self._users.get(run, 0) + 1
        return self._open[run]

    def give_back(self, run: str) -> None:
        self._users[run] -= 1
        if not self._users[run]:
            del self._open[run], self._users[run]

    def __len__(self) -> int:
        return len(self._open)
