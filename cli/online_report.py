"""What `wmtk online` says while it runs, and at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING, Any

from wmtk.cli import console
from wmtk.cli.console import human_count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.training.pace import OnlineConfig
    from wmtk.training.progress import OnlineProgress
    from wmtk.training.run import Run

RECENT = 20  # episodes whose mean return is shown
WORK = ("collect", "model", "behaviour", "eval")  # parts of the time that are not overhead


class Shown:
    """Shows how far a run is; remembers the last it was told."""

    def __init__(self, bar: console.Progress, task: str) -> None:
        self._bar, self._task = bar, task
        self.last: OnlineProgress | None = None

    def update(self, progress: OnlineProgress) -> None:
        self.last = progress
        self._bar.update(completed=progress.steps, description=_describe(self._task, progress))


@contextmanager
def showing(task: str, steps: int, begun_at: int) -> Iterator[Shown]:
    """Show a run while the block runs: lines where there is no terminal."""
    with console.progress(task, steps, noun="step", begun_at=begun_at) as bar:
        yield Shown(bar, task)


def _describe(task: str, progress: OnlineProgress) -> str:
    parts = [task, human_count(progress.updates, "update")]
    if progress.returns:
        parts.append(f"return {fmean(progress.returns[-RECENT:]):.4g}")
    if progress.scores:
        parts.append(f"tested {progress.scores[-1].mean_return:.4g}")
    parts += [f"{name} {value:.3g}" for name, value in progress.losses.items()]
    return ", ".join(parts)


# --- the end ---


def result_of(
    run: Run, config: OnlineConfig, steps: int, progress: OnlineProgress | None
) -> dict[str, Any]:
    """What came of a run."""
    from wmtk.training.metrics import read_metrics
    from wmtk.training.replay import played

    tests = [r for r in read_metrics(run.path) if r.get("eval/return") is not None]
    best = run.checkpoints.pointer("best")
    done = played(run.path)
    return {
        "run": str(run.path),
        "finished": run.step >= config.updates_at(steps) and done >= steps,
        "steps": done,
        "frames": None if progress is None else done * progress.action_repeat,
        "updates": run.step,
        "tested": tests[-1] if tests else None,
        "best": next((r for r in tests if best and r["step"] == int(best)), None),
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
        table.add_row("best", _score(result["best"]))
    if result["time"]:
        table.add_row("time", time_line(result["time"]))
    table.add_row("look", f"tensorboard --logdir {result['run']}")
    table.add_row("use", f"wmtk eval {result['run']}")
    return table


def _score(report: Mapping[str, Any]) -> str:
    spread = f"{report['eval/return']:.4g} ± {report['eval/return_std']:.3g}"
    return f"return {spread}, at update {human_count(report['step'])}"


def time_line(shares: Mapping[str, float]) -> str:
    """Where the time went, and how much of it was work."""
    work = sum(shares.get(name, 0.0) for name in WORK)
    parts = sorted(shares.items(), key=lambda item: -item[1])
    return f"{work:.1%} work: " + ", ".join(f"{name} {share:.1%}" for name, share in parts)
