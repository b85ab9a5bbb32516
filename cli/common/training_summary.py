"""Results of the training commands: a record for --json, and a table for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wmtk.cli.common.console import human_count, short_path

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from wmtk.runs.run_directory import Run
    from wmtk.runs.training_config import OnlineConfig
    from wmtk.training.online.progress import OnlineProgress

Record = dict[str, Any]

WORK = ("collect", "model", "behavior", "eval")  # parts of the time that are not overhead
# Rows of the table of a policy, and the training metrics that they show.
POLICY_METRICS = {
    "imagined return": "imagined/return",
    "value": "critic/value",
    "entropy": "entropy/actor",
    "disagreement": "disagreement/imagined",
    "on the data": "disagreement/data",
    "of the explorer": "explorer/disagreement/imagined",
}


def _comparison(run: Run) -> Record | None:
    """The run's mean return beside its baselines, with the sentence to show."""
    from wmtk.runs.baselines import compare_run

    comparison = compare_run(run)
    if comparison is None:
        return None
    return comparison.to_json("The data's mean return" if run.kind == "model" else "Mean return")


def _table(record: Record) -> Table:
    from rich.table import Table

    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")  # text that is cut off cannot be copied
    table.add_row("run", record["run"])
    return table


# --- a world model ------------------------------------------------------------------------------


def model_record(run: Run) -> Record:
    """The last validation losses of a run, and those of its best checkpoint."""
    from wmtk.runs.metrics_log import read_metrics

    reports = [r for r in read_metrics(run.path) if r.get("val/loss/total") is not None]
    best = run.checkpoints.step_of("best")
    return {
        "run": short_path(run.path),
        "updates": run.step,
        "held_out": reports[-1] if reports else None,
        "best": best,
        "best_held_out": next((r for r in reports if r["step"] == best), None),
        "comparison": _comparison(run),
        "verdict": None,
    }


def render_model(record: Record) -> RenderableType:
    from rich.console import Group

    from wmtk.cli.common.verdict_text import short_verdict_text

    table = _table(record)
    table.add_row("updates", human_count(record["updates"]))
    if record["held_out"]:
        table.add_row("held out", _loss(record["held_out"]))
    if record["best_held_out"]:
        table.add_row("best", _loss(record["best_held_out"]))
    if record["comparison"]:
        table.add_row("data", record["comparison"]["sentence"])
    table.add_row("metrics", f"tensorboard --logdir {record['run']}")
    table.add_row("use", f'wmtk.load("{record["run"]}")')
    verdict = record["verdict"]
    return table if verdict is None else Group(table, *short_verdict_text(verdict))


def _loss(report: Mapping[str, Any]) -> str:
    """The validation loss at an update, and the PSNR of its images."""
    loss = report["val/loss/constant_free"]
    images = [f"{v:.1f} dB" for name, v in report.items() if name.startswith("val/psnr/") and v]
    psnr = f", images {' and '.join(images)}" if images else ""
    return f"loss {loss:.4g} without constants{psnr}, at update {human_count(report['step'])}"


# --- a policy -----------------------------------------------------------------------------------


def policy_record(run: Run) -> Record:
    """The last training metrics of a run, and its last evaluation in the environment."""
    from wmtk.runs.metrics_log import read_metrics

    last = test = None
    for report in read_metrics(run.path):
        if report.get("eval/return") is not None:
            test = report
        else:
            last = report
    return {
        "run": short_path(run.path),
        "updates": run.step,
        "last": last,
        "test": test,
        "comparison": _comparison(run),
    }


def render_policy(record: Record) -> RenderableType:
    table = _table(record)
    table.add_row("updates", human_count(record["updates"]))
    if last := record["last"]:
        for title, name in POLICY_METRICS.items():
            if last.get(f"train/{name}") is not None:
                table.add_row(title, f"{last[f'train/{name}']:.4g}")
    evaluate = f"wmtk eval {shlex.quote(str(record['run']))}"
    # The return above is imagined; this one is measured in the environment.
    if test := record["test"]:
        tested = f"{test['eval/return']:.4g} ± {test['eval/return_std']:.3g}"
        table.add_row("real return", f"{tested}, in an evaluation of update {test['step']:,}")
        expected, actual = test.get("eval/predicted_return"), test.get("eval/discounted_return")
        if expected is not None and actual is not None:
            table.add_row("discounted", f"{actual:.3g}, where the critic expected {expected:.3g}")
        if record["comparison"]:
            table.add_row("result", record["comparison"]["sentence"])
        table.add_row("evaluate", evaluate)
    else:
        table.add_row("real return", evaluate)
    table.add_row("metrics", f"tensorboard --logdir {record['run']}")
    table.add_row("use", f'wmtk.load("{record["run"]}").policy(obs)')
    return table


# --- an agent trained online --------------------------------------------------------------------


def online_record(
    run: Run, config: OnlineConfig, steps: int, progress: OnlineProgress | None
) -> Record:
    """The agent steps, updates and evaluations of a run that trains for `steps` steps in all."""
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
        "comparison": _comparison(run),
        "time": {} if progress is None else dict(progress.shares),
    }


def render_online(record: Mapping[str, Any]) -> RenderableType:
    table = _table(dict(record))
    frames = f", {human_count(record['frames'])} frames" if record["frames"] else ""
    table.add_row("agent steps", f"{human_count(record['steps'])}{frames}")
    table.add_row("updates", human_count(record["updates"]))
    if record["tested"]:
        table.add_row("tested", _score(record["tested"]))
    if record["best"]:
        table.add_row("best", _best(record["best"]))
    if record.get("comparison"):
        table.add_row("result", record["comparison"]["sentence"])
    if record["time"]:
        table.add_row("time", time_line(record["time"]))
    table.add_row("metrics", f"tensorboard --logdir {record['run']}")
    table.add_row("use", f"wmtk eval {shlex.quote(str(record['run']))}")
    return table


def _score(report: Mapping[str, Any]) -> str:
    spread = f"{report['eval/return']:.4g} ± {report['eval/return_std']:.3g}"
    return f"return {spread}, at update {human_count(report['step'])}"


def _best(report: Mapping[str, Any]) -> str:
    """The best evaluation, by a second set of episodes: the mean that selected it is biased."""
    if report.get("eval/confirmed_return") is None:
        return _score(report)
    own, confirmed = report["eval/return"], report["eval/confirmed_return"]
    return (
        f"return {confirmed:.4g} in a second set of episodes ({own:.4g} in the first), "
        f"at update {human_count(report['step'])}"
    )


def time_line(shares: Mapping[str, float]) -> str:
    """The share of the time that is not overhead, then the share of each part."""
    work = sum(shares.get(name, 0.0) for name in WORK)
    parts = sorted(shares.items(), key=lambda item: -item[1])
    return f"{work:.1%} work: " + ", ".join(f"{name} {share:.1%}" for name, share in parts)
