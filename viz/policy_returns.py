"""`wmtk.viz.returns`: imagined and real returns of a policy over its training."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wmtk.errors import RunError
from wmtk.reprs import brief_repr
from wmtk.viz.metrics import TrainingReturns, training_returns
from wmtk.viz.output_files import chart_path, no_progress, write_still
from wmtk.viz.videos.video_file import Written
from wmtk.viz.windows import OnProgress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENVS = 10  # environments that run in parallel


@dataclass(frozen=True)
class PolicyReturns:
    """Returns of the checkpoints of a policy: real ones, and values of the first states."""

    run: Path
    task: str
    episodes: int  # for each checkpoint
    seed: int
    discount: float  # γ of the discounted returns
    updates: list[int]
    returns: list[tuple[float, ...]]  # for each checkpoint, of each episode
    discounted: list[tuple[float, ...]]  # with rewards as the model learns them
    imagined: list[tuple[float, ...]]  # value of the first state
    comparison: TrainingReturns
    finding: str
    files: list[Written] = field(repr=False)  # the chart, if it was requested

    __repr__ = brief_repr

    def figure(self) -> Figure:
        """Imagined and real returns over the updates."""
        from wmtk.viz.plots.returns_chart import returns_figure

        return returns_figure(
            self.comparison,
            self.updates,
            title=f"Returns of {self.run.resolve().name}",
            caption=f"{self.episodes} episodes with each checkpoint; bands are 95% intervals.",
        )


def returns(
    run: str | Path,
    *,
    chart: str | Path | None = None,
    episodes: int = 20,
    checkpoints: int = 10,
    sample: bool = False,
    seed: int = 0,
    workers: int | None = 0,
    device: str = "auto",
    trust_env: str | Collection[str] = (),
    on_progress: OnProgress = no_progress,
) -> PolicyReturns:
    """Compare imagined with real returns of a policy, checkpoint by checkpoint.

    Each checkpoint plays episodes of the task of the run. The value of their first states, which
    the critic learned in imagination, is compared with their discounted return. The rank
    correlation over checkpoints tests whether larger imagined returns mean larger real returns;
    otherwise the policy exploits errors of its world model.

    Args:
        run: The run directory of a trained policy.
        chart: A `.png`, `.svg` or `.pdf` for both returns over the updates; None writes none.
        episodes: Episodes of each checkpoint.
        checkpoints: Checkpoints at most, spread over the training.
        sample: Whether to sample actions; otherwise the most likely ones are taken.
        seed: Seed of environments and actions.
        workers: Processes for the environments; 0 runs them in this process, None starts one per
            core.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        trust_env: `module:Id` of an environment that the run may import.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        Returns and values of each episode, means with intervals, and the rank correlation.

    Example:
        >>> result = wmtk.viz.returns(policy, episodes=2)
        >>> len(result.returns) == len(result.updates)
        True
        >>> result.comparison.imagined.value.shape == (len(result.updates),)
        True
    """
    from wmtk.agent.policy_evaluation import evaluate as play

    path = Path(run)
    chart = chart_path(chart)
    updates = spread_updates(path, checkpoints)
    reports = []
    for update in updates:
        description = f"Playing update {update:,}"
        played = play(
            path,
            episodes=episodes,
            envs=min(ENVS, episodes),
            workers=workers,
            seed=seed,
            sample=sample,
            checkpoint=str(update),
            device=device,
            random_episodes=0,
            trust_env=trust_env,
            on_progress=lambda p, text=description: on_progress(text, p.episodes, episodes),  # type: ignore[misc]
        )
        if played.report.interrupted:
            raise KeyboardInterrupt
        reports.append(played.report)
    comparison = training_returns(
        [report.discounted_returns for report in reports],
        [report.predicted_returns for report in reports],
        seed=seed,
    )
    result = PolicyReturns(
        run=path,
        task=reports[0].task,
        episodes=episodes,
        seed=seed,
        discount=float(reports[0].discount or 0),
        updates=updates,
        returns=[report.returns for report in reports],
        discounted=[report.discounted_returns for report in reports],
        imagined=[report.predicted_returns for report in reports],
        comparison=comparison,
        finding=finding(comparison),
        files=[],
    )
    if chart is not None:
        result.files.append(write_still(chart, result.figure()))
    return result


def spread_updates(run: Path, most: int) -> list[int]:
    """The updates of at most `most` checkpoints of a run, evenly spread, the last included."""
    from wmtk.runs.run_directory import Run

    steps = Run(run).checkpoints.steps()
    if not steps:
        raise RunError(f"{run} has no checkpoint yet.", "Train it first: wmtk train-policy.")
    places = np.linspace(len(steps) - 1, 0, min(most, len(steps)))
    return sorted({steps[round(place)] for place in places.tolist()})


def finding(comparison: TrainingReturns) -> str:
    """The rank correlation in words."""
    correlation = comparison.rank_correlation
    if np.isnan(correlation.value):
        return "A rank correlation needs two checkpoints or more with different returns."
    if correlation.low > 0:
        return "Larger imagined returns mean larger real returns."
    if correlation.high < 0:
        return "Larger imagined returns mean smaller real returns: the policy exploits its model."
    return "These episodes do not show whether larger imagined returns mean larger real returns."
