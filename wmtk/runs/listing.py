"""Summaries of all runs under a folder: state, progress and scores."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmtk.datasets.storage import atomic
from wmtk.errors import FormerRunError, WmtkError
from wmtk.runs.baselines import compare_run
from wmtk.runs.metrics_log import read_metrics
from wmtk.runs.replay import replay_steps
from wmtk.runs.run_directory import Run

SKIPPED = {"checkpoints", "tensorboard", "images", "videos", "report"}  # folders inside of a run


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run directory."""

    path: Path
    kind: str
    state: str  # running, finished, stopped, begun (no checkpoint yet), outdated or damaged
    task: str
    updates: int
    steps: int | None  # agent steps of online runs; None for other runs
    last: float | None  # mean return of the last evaluation, or the last held-out loss
    best: float | None  # of the checkpoint `best`: the confirmed mean return, or the lowest loss
    measure: str  # of `last` and `best`: "return", "loss" or ""
    created: str
    comparison: Mapping[str, Any] | None = None  # with the baselines
    problem: str = ""  # error message of a run that cannot be read


def list_runs(folder: Path) -> list[RunSummary]:
    """All runs in and below a folder, sorted by path."""
    return [summarize_run(path) for path in sorted(_run_paths(folder))]


def _run_paths(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        if "run.json" in [*files, *folders]:
            yield Path(root)
        # Hidden folders are unfinished; a dataset has thousands of folders.
        folders[:] = [f for f in folders if f[0] != "." and f not in SKIPPED and "zarr" not in f]


def summarize_run(path: Path) -> RunSummary:
    """The summary of a run; it is damaged if any of its files cannot be read."""
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
        state = "damaged"
        if isinstance(error, FormerRunError):
            state, problem = "outdated", f"{problem} {error.hint}"
        return RunSummary(path, "?", state, "", 0, None, None, None, "", "", problem=problem)


def _state(run: Run) -> str:
    with atomic.FolderLock(run.path, exclusive=False) as granted:
        if not granted:
            return "running"
    run.settings  # noqa: B018 — raises if config.yaml is damaged
    state = run.state()
    if state is None:
        return "begun"
    done = run.step >= state.steps and not state.owes_test
    if run.kind == "online":
        done = done and replay_steps(run.path) >= (state.agent_steps or 0)
    return "finished" if done else "stopped"


def _comparison(run: Run) -> Mapping[str, Any] | None:
    try:
        comparison = compare_run(run)
    except WmtkError:  # without a readable baselines.json, the other fields are shown
        return None
    if comparison is None:
        return None
    return comparison.to_json("The data's mean return" if run.kind == "model" else "Mean return")


def _score(run: Run) -> tuple[str, float | None, float | None]:
    """The measure, its last value, and its value at the checkpoint `best`.

    A policy trained offline is evaluated once, at the end: it has no best checkpoint.
    """
    reports = read_metrics(run.path)
    returns = {r["step"]: r for r in reports if r.get("eval/return") is not None}
    if returns:
        test = returns.get(run.checkpoints.step_of("best") or -1)
        best = None if test is None else test.get("eval/confirmed_return", test["eval/return"])
        return "return", [*returns.values()][-1]["eval/return"], best
    known = [r.get("val/loss/constant_free") for r in reports]
    losses = [loss for loss in known if loss is not None and math.isfinite(loss)]
    return ("loss", losses[-1], min(losses)) if losses else ("", None, None)
