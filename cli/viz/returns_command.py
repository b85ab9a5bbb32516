"""`wmtk viz returns`: imagined and real returns of a policy over its training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import process
from wmtk.cli.common.console import emit, human_bytes, note
from wmtk.cli.common.options import Device, Json, TrustEnv, Workers, seed_option
from wmtk.cli.viz.window_options import Chart, PolicyPath, Sample, progress_bars

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.viz.policy_returns import PolicyReturns


def returns(
    run: PolicyPath,
    chart: Chart = None,
    episodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Episodes of each checkpoint.")
    ] = 20,
    checkpoints: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Checkpoints at most, spread over the training."),
    ] = 10,
    sample: Sample = False,
    seed: Annotated[int, seed_option("The same seed gives the same episodes.")] = 0,
    workers: Workers = None,
    device: Device = "auto",
    trust_env: TrustEnv = None,
    json: Json = False,
) -> None:
    """Compare imagined with real returns of a policy, checkpoint by checkpoint.

    Each checkpoint plays episodes of the task. The critic's value of their first states, learned in
    imagination, is compared with their discounted return. The rank correlation over checkpoints
    tests whether larger imagined returns mean larger real returns; otherwise the policy exploits
    errors of its world model. The setting logging.keep_checkpoints is the number of checkpoints
    that a training keeps.

    \b
    Examples:
      wmtk train-policy runs/catch --out runs/catch-policy --set logging.keep_checkpoints=20
      wmtk viz returns runs/catch-policy --chart returns.png
      wmtk viz returns runs/catch-policy --episodes 100 --json
    """
    process.reserve_stdout()
    from wmtk.viz import returns

    with progress_bars() as on_progress:
        result = returns(
            run,
            chart=chart,
            episodes=episodes,
            checkpoints=checkpoints,
            sample=sample,
            seed=seed,
            workers=workers,
            device=device,
            trust_env=trust_env or [],
            on_progress=on_progress,
        )
    emit(result, json=json, render=_render)
    for file in result.files:
        size = f"{file.width} × {file.height} pixels, {human_bytes(file.bytes)}"
        note(f"{file.path}: {size}.")


def _render(result: PolicyReturns) -> RenderableType:
    import numpy as np
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from wmtk.viz.evaluation.interval_text import format_interval, format_margin

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("update", "return", "discounted", "imagined", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    comparison = result.comparison
    estimates = (comparison.true, comparison.imagined, comparison.bias)
    for row, (update, scores) in enumerate(zip(result.updates, result.returns, strict=True)):
        cells = [format_margin(estimate.at(row)) for estimate in estimates]
        table.add_row(f"{update:,}", f"{np.mean(scores):.2f}", *cells)
    correlation = format_interval(comparison.rank_correlation)
    notes = [
        f"{result.episodes} episodes of {result.task} with each checkpoint, seed {result.seed}; "
        "± is half of the 95% interval, a bootstrap over episodes.",
        f"discounted: Σ γᵗ·rₜ with γ = {result.discount:g}, as the model learns rewards; imagined: "
        "the critic's value of the first state; difference: imagined − discounted.",
    ]
    return Group(
        table,
        "",
        Text(f"Rank correlation over the checkpoints: {correlation}"),
        Text(result.finding),
        "",
        *(Text(line, style="dim") for line in notes),
    )
