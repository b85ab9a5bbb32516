"""`wmtk viz returns`: what a policy imagines to reach and what it reaches, over its training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import process
from wmtk.cli.common.console import emit, err, human_bytes, progress
from wmtk.cli.common.options import Json, TrustEnv, seed_option
from wmtk.cli.viz.window_options import Device

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.collecting import EvalReport
    from wmtk.viz.metrics import Estimate, TrainingReturns

ENVS = 10  # that play side by side


@dataclass(frozen=True)
class ReturnsReport:
    run: Path
    task: str
    episodes: int  # of each checkpoint
    seed: int
    discount: float  # γ of the returns that are compared
    updates: list[int]
    returns: list[tuple[float, ...]]  # of the task, a number for each episode
    discounted: list[tuple[float, ...]]
    imagined: list[tuple[float, ...]]  # what the critic expected of the first state
    comparison: TrainingReturns
    finding: str


def returns(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The run directory of a trained policy.")
    ],
    chart: Annotated[
        Path | None, typer.Option(help="Draw both over the updates.", metavar="F.png")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Played with each checkpoint.")] = 20,
    most: Annotated[
        int, typer.Option("--checkpoints", min=1, help="At most, spread over the training.")
    ] = 10,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw actions instead of taking the likeliest.")
    ] = False,
    seed: Annotated[
        int,
        seed_option("The same seed gives the same episodes."),
    ] = 0,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that play; 0 is this one.", show_default="cores"),
    ] = None,
    device: Device = "auto",
    trust_env: TrustEnv = None,
    json: Json = False,
) -> None:
    """Compare what a policy imagines to reach with what it reaches, checkpoint by checkpoint.

    Each checkpoint plays episodes of the task. What its critic expects of their first states, which
    it knows from imagination alone, stands beside the discounted return that then comes. The rank
    correlation over the checkpoints tells whether more imagined return is more real return: where
    it is not, the policy exploits errors of its world model. The setting
    logging.keep_checkpoints says how many checkpoints a training keeps.

    \b
    Examples:
      wmtk train-policy runs/catch --out runs/catch-policy --set logging.keep_checkpoints=20
      wmtk viz returns runs/catch-policy --chart returns.png
      wmtk viz returns runs/catch-policy --episodes 100 --json
    """
    process.reserve_stdout()
    from wmtk.viz.metrics import training_returns
    from wmtk.viz.videos.video_file import require_ending

    if chart is not None:
        from wmtk.viz.plots.figures import FIGURE_ENDINGS

        require_ending(chart, FIGURE_ENDINGS)
    updates = chosen_updates(run, most)
    trusted = trust_env or []
    played = [
        _play(run, n, episodes, seed, device, workers, trusted, sample=sample) for n in updates
    ]
    found = training_returns(
        [report.discounted_returns for report in played],
        [report.predicted_returns for report in played],
        seed=seed,
    )
    report = ReturnsReport(
        run=run,
        task=played[0].task,
        episodes=episodes,
        seed=seed,
        discount=float(played[0].discount or 0),
        updates=updates,
        returns=[report.returns for report in played],
        discounted=[report.discounted_returns for report in played],
        imagined=[report.predicted_returns for report in played],
        comparison=found,
        finding=finding(found),
    )
    emit(report, json=json, render=_render)
    if chart is not None:
        _draw(chart, report)


def chosen_updates(run: Path, most: int) -> list[int]:
    """Some of the checkpoints of a run, the last among them."""
    import numpy as np

    from wmtk.errors import RunError
    from wmtk.runs.run_directory import Run

    steps = Run(run).checkpoints.steps()
    if not steps:
        raise RunError(f"{run} has no checkpoint yet.", "Train it first: wmtk train-policy.")
    places = np.linspace(len(steps) - 1, 0, min(most, len(steps)))
    return sorted({steps[round(place)] for place in places.tolist()})


def _play(
    run: Path,
    update: int,
    episodes: int,
    seed: int,
    device: str,
    workers: int | None,
    trust_env: list[str],
    *,
    sample: bool,
) -> EvalReport:
    """Episodes of one checkpoint, as `wmtk eval` plays them."""
    from wmtk.agent.policy_evaluation import evaluate
    from wmtk.cli.common.console import warn

    with progress(f"Evaluating update {update:,}", episodes, noun="episode") as bar:
        report = evaluate(
            run,
            checkpoint=str(update),
            episodes=episodes,
            seed=seed,
            sample=sample,
            device=device,
            envs=min(ENVS, episodes),
            workers=workers,
            trust_env=trust_env,
            random_episodes=0,
            on_progress=lambda p: bar.update(completed=p.episodes),
            on_message=warn,
        ).report
    if report.interrupted:
        raise KeyboardInterrupt
    return report


def finding(found: TrainingReturns) -> str:
    """What the rank correlation says, in words."""
    import numpy as np

    both = found.rank_correlation
    if np.isnan(both.value):
        return "One checkpoint, or checkpoints that are all alike, have no order to compare."
    if both.low > 0:
        return "More imagined return is more real return."
    if both.high < 0:
        return "More imagined return is less real return: the policy exploits its world model."
    return "Whether more imagined return is more real return is not clear from these episodes."


def _render(report: ReturnsReport) -> RenderableType:
    import numpy as np
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from wmtk.viz.interval_text import format_interval, format_margin

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("update", "return", "discounted", "imagined", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    found = report.comparison

    def cell(estimate: Estimate, row: int) -> str:
        return format_margin(estimate.at(row))

    for row, (update, scores) in enumerate(zip(report.updates, report.returns, strict=True)):
        table.add_row(
            f"{update:,}",
            f"{np.mean(scores):.2f}",
            *(cell(part, row) for part in (found.true, found.imagined, found.bias)),
        )
    notes = [
        f"{report.episodes} episodes of {report.task} with each checkpoint, seed {report.seed}; "
        "± is half of the 95% interval, a bootstrap over episodes.",
        f"discounted: Σ γᵗ·rₜ with γ = {report.discount:g}, as the model learns rewards; imagined: "
        "what the critic expected of the first state; difference: imagined − discounted.",
    ]
    return Group(
        table,
        "",
        Text(f"Rank correlation over the checkpoints: {format_interval(found.rank_correlation)}"),
        Text(report.finding),
        "",
        *(Text(note, style="dim") for note in notes),
    )


def _draw(path: Path, report: ReturnsReport) -> None:
    from wmtk.viz.plots.figures import save_figure
    from wmtk.viz.plots.returns_chart import returns_figure

    figure = returns_figure(
        report.comparison,
        report.updates,
        title=f"Returns of {report.run.resolve().name}",
        caption=f"{report.episodes} episodes with each checkpoint; bands are 95% intervals.",
    )
    written = save_figure(figure, path)
    size = f"{written.width} × {written.height} pixels, {human_bytes(written.bytes)}"
    err.print(f"{path}: {size}.", soft_wrap=True)
