"""The runs under a folder, each in a line: what it is, how far, and how good."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmtk.datasets.storage import atomic
from wmtk.errors import WmtkError
from wmtk.runs.baselines import compare_run
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.replay import replay_steps
from wmtk.runs.run_directory import Run

INSIDE = {"checkpoints", "tensorboard", "images", "videos", "report"}  # of a run: nothing below


@dataclass(frozen=True)
class RunSummary:
    """What a run directory says of itself."""

    path: Path
    kind: str
    state: str  # running, finished, stopped, begun (no checkpoint yet) or damaged
    task: str
    updates: int
    steps: int | None  # agent steps that it played; None if it plays none
    last: float | None  # the mean return of its last test, or the last held-out loss
    best: float | None  # of the checkpoint `best`: the confirmed mean return, or the lowest loss
    measure: str  # what these are: "return", "loss" or nothing
    created: str
    comparison: Mapping[str, Any] | None = None  # the last test, or a model's data, with baselines
    problem: str = ""  # what is wrong with a damaged one


def list_runs(folder: Path) -> list[RunSummary]:
    """All runs below a folder, or the one that it is, in the order of their names."""
    return [summarize_run(path) for path in sorted(_found(folder))]


def _found(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        if "run.json" in [*files, *folders]:
            yield Path(root)
        # Neither hidden folders, which are unfinished, nor the thousand folders of a dataset.
        folders[:] = [f for f in folders if f[0] != "." and f not in INSIDE and "zarr" not in f]


def summarize_run(path: Path) -> RunSummary:
    """What a run is; one of which any file cannot be read is damaged."""
    try:
        run = Run(path)
        measure, last, best = _score(run)
        return RunSummary(
            path=path,
            kind=run.kind,
            state=_state(run),
            task=str(run.about["env"].get("task", "")),
            updates=run.step,
            steps=replay_steps(path) if run.kind == "online" else None,
            last=last,
            best=best,
            measure=measure,
            created=str(run.about["created"]),
            comparison=_comparison(run),
        )
    except (WmtkError, OSError) as error:
        problem = error.message if isinstance(error, WmtkError) else str(error)
        return RunSummary(path, "?", "damaged", "", 0, None, None, None, "", "", problem=problem)


def _state(run: Run) -> str:
    with atomic.FolderLock(run.path, exclusive=False) as granted:
        if not granted:
            return "running"
    run.settings  # noqa: B018 — damaged settings are damage too
    state = run.state()
    if state is None:
        return "begun"
    done = run.step >= state.steps and not state.owes_test
    if run.kind == "online":
        done = done and replay_steps(run.path) >= (state.agent_steps or 0)
    return "finished" if done else "stopped"


def _comparison(run: Run) -> Mapping[str, Any] | None:
    try:
        found = compare_run(run)
    except WmtkError:  # a damaged file of baselines takes nothing else with it
        return None
    if found is None:
        return None
    return found.to_json("The data's mean return" if run.kind == "model" else "Mean return")


def _score(run: Run) -> tuple[str, float | None, float | None]:
    """What is measured, its last value, and that of the best checkpoint.

    A policy trained offline is tested once, at its end: it has no best checkpoint.
    """
    reports = read_metrics(run.path)
    returns = {r["step"]: r for r in reports if r.get("eval/return") is not None}
    if returns:
        test = returns.get(run.checkpoints.step_of("best") or -1)
        best = None if test is None else test.get("eval/confirmed", test["eval/return"])
        return "return", [*returns.values()][-1]["eval/return"], best
    known = [r.get("val/loss/constant_free") for r in reports]
    losses = [loss for loss in known if loss is not None and math.isfinite(loss)]
    return ("loss", losses[-1], min(losses)) if losses else ("", None, None)
