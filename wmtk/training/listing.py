"""The runs under a folder, each in a line: what it is, how far, and how good."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmtk.datasets import durable
from wmtk.errors import WmtkError
from wmtk.training.metrics import read_metrics
from wmtk.training.replay import played
from wmtk.training.run import Run

INSIDE = {"checkpoints", "tensorboard", "pictures", "videos", "report"}  # of a run: nothing below


@dataclass(frozen=True)
class RunLine:
    """What a run directory says of itself."""

    path: Path
    kind: str
    state: str  # running, finished, stopped, begun (no checkpoint yet) or damaged
    task: str
    updates: int
    steps: int | None  # agent steps that it played; None if it plays none
    best: float | None  # the best mean return of its tests, or the lowest held-out loss
    measure: str  # what `best` is: "return", "loss" or nothing
    created: str


def runs_under(folder: Path) -> list[RunLine]:
    """All runs below a folder, or the one that it is, in the order of their names."""
    return [line_of(path) for path in sorted(_found(folder))]


def _found(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        # Neither hidden folders, which are unfinished, nor the thousand folders of a dataset.
        folders[:] = [f for f in folders if f[0] != "." and f not in INSIDE and "zarr" not in f]
        if "run.json" in files:
            yield Path(root)


def line_of(path: Path) -> RunLine:
    try:
        run = Run(path)
        state = _state(run)
    except (WmtkError, OSError, KeyError):
        return RunLine(path, "?", "damaged", "", 0, None, None, "", "")
    measure, best = _best(read_metrics(path))
    return RunLine(
        path=path,
        kind=run.kind,
        state=state,
        task=str(run.about["env"].get("task", "")),
        updates=run.step,
        steps=played(path) if run.kind == "online" else None,
        best=best,
        measure=measure,
        created=str(run.about["created"]),
    )


def _state(run: Run) -> str:
    with durable.lock_held(run.path, exclusive=False) as granted:
        if not granted:
            return "running"
    if not run.step:
        return "begun"
    state = run.checkpoints.document()["state"]
    done = run.step >= state["steps"]
    if run.kind == "online":
        done = done and played(run.path) >= state["agent_steps"]
    return "finished" if done else "stopped"


def _best(reports: list[dict[str, Any]]) -> tuple[str, float | None]:
    returns = [r["eval/return"] for r in reports if r.get("eval/return") is not None]
    if returns:
        return "return", max(returns)
    losses = [r.get("val/loss/constant_free") for r in reports]
    known = [loss for loss in losses if loss is not None and math.isfinite(loss)]
    return ("loss", min(known)) if known else ("", None)
