"""What came of `wmtk online`, at its end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wmtk.cli.common.console import human_count, short_path
from wmtk.cli.common.run_options import comparison_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.runs.run_directory import Run
    from wmtk.runs.training_config import OnlineConfig
    from wmtk.training.online.progress import OnlineProgress

WORK = ("collect", "model", "behavior", "eval")  # parts of the time that are not overhead


def result_of(
    run: Run, config: OnlineConfig, steps: int, progress: OnlineProgress | None
) -> dict[str, Any]:
    """What came of a run."""
    from wmtk.runs.metrics_log import read_metrics
    from wmtk.runs.replay import replay_steps

    tests = [r for r in read_metrics(run.path) if r.get("eval/return") is not None]
    best = run.checkpoints.step_of("best")
    done = replay_steps(run.path)
    state = run.state()
    owes_test = state is not None and state.owes_test
    return {
        "run": short_path(run.path),
        "finished": run.step >= config.updates_at(steps) and done >= steps and not owes_test,
        "steps": done,
        "frames": None if progress is None else done * progress.action_repeat,
        "updates": run.step,
        "tested": tests[-1] if tests else None,
        "best": next((r for r in tests if r["step"] == best), None),
        "comparison": comparison_of(run),
        "time": {} if progress is None else dict(progress.shares),
    }


def show_result(result: Mapping[str, Any]) -> RenderableType:
    from rich.table import Table

    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")  # what is cut off cannot be copied
    table.add_row("run", result["run"])
    frames = f", {human_count(result['frames'])} frames" if result["frames"] else ""
    table.add_row("agent steps", f"{human_count(result['steps'])}{frames}")
    table.add_row("updates", human_count(result["updates"]))
    if result["tested"]:
        table.add_row("tested", _score(result["tested"]))
    if result["best"]:
        table.add_row("best", _best(result["best"]))
    if result.get("comparison"):
        table.add_row("result", result["comparison"]["sentence"])
    if result["time"]:
        table.add_row("time", time_line(result["time"]))
    table.add_row("look", f"tensorboard --logdir {result['run']}")
    table.add_row("use", f"wmtk eval {shlex.quote(str(result['run']))}")
    return table


def _score(report: Mapping[str, Any]) -> str:
    spread = f"{report['eval/return']:.4g} ± {report['eval/return_std']:.3g}"
    return f"return {spread}, at update {human_count(report['step'])}"


def _best(report: Mapping[str, Any]) -> str:
    """The best test by its second set of episodes: its own mean was chosen for being high."""
    if report.get("eval/confirmed") is None:
        return _score(report)
    own, again = report["eval/return"], report["eval/confirmed"]
    at = human_count(report["step"])
    return f"return {again:.4g} in a second set of episodes ({own:.4g} in the test), at update {at}"


def time_line(shares: Mapping[str, float]) -> str:
    """Where the time went, and how much of it was work."""
    work = sum(shares.get(name, 0.0) for name in WORK)
    parts = sorted(shares.items(), key=lambda item: -item[1])
    return f"{work:.1%} work: " + ", ".join(f"{name} {share:.1%}" for name, share in parts)
