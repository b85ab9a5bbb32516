"""`wmtk.viz.evaluate`: all metrics of a model on held-out windows, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wmtk.viz.evaluation.measurements import SAMPLES, measure
from wmtk.viz.evaluation.model_metrics import DEFINITIONS, ModelMetrics, compute_metrics
from wmtk.viz.evaluation.verdict import Verdict, verdict
from wmtk.viz.output_files import no_progress
from wmtk.viz.windows import (
    CONTEXT,
    HORIZON,
    WINDOWS,
    DatasetLike,
    ModelWindows,
    OnProgress,
    open_windows,
)

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedModel

PARTS = 3  # of `compute_metrics`


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a model, the verdict, and what was evaluated."""

    run: Path
    update: int
    checkpoint: str  # hash of the weights
    dataset: Path
    version: int  # of the dataset
    held_out: str  # description of the episodes
    seed: int
    description: str
    verdict: Verdict
    definitions: dict[str, str]  # of the metrics
    metrics: ModelMetrics

    def __repr__(self) -> str:
        lines = [self.description, self.verdict.headline]
        return "\n".join([*lines, *(finding.text for finding in self.verdict.findings)])


def evaluate(
    run: str | Path | LoadedModel,
    dataset: DatasetLike,
    *,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    samples: int = SAMPLES,
    windows: int = WINDOWS,
    episodes: int | None = None,
    factors: bool = True,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> Evaluation:
    """Evaluate a world model on windows of episodes held out of its training.

    The model observes `context` rows of each window and imagines the next `horizon` rows with the
    recorded actions. Predictions are compared with the recorded rows, with two baselines (the last
    observed frame and the mean frame) and with reconstructions. Intervals are bootstrapped over
    episodes.

    Args:
        run: A run directory, or a loaded model.
        dataset: A dataset of the same task, or its path.
        context: Rows of each window that the model observes.
        horizon: Rows that it imagines; fewer if no episode is long enough.
        samples: Futures imagined of each window.
        windows: Number of windows.
        episodes: Episodes to take them from at most; None for all.
        factors: Whether to fit probes for the factors in `info`, the slowest part.
        seed: Seed of windows, latents and intervals.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        Metrics with intervals, and the verdict with its findings; printing it shows the verdict.

    Example:
        >>> result = wmtk.viz.evaluate(run, data, horizon=6, windows=8, samples=2)
        >>> result.metrics.obs["image"].skill.value.shape  # one for each imagined step
        (6,)
        >>> result.verdict.grade in ("good", "doubtful", "bad")
        True
    """
    opened = open_windows(
        run,
        dataset,
        context=context,
        horizon=horizon,
        count=windows,
        episodes=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    measurements = measure(
        opened.model,
        opened.batches(),
        context=context,
        samples=samples,
        seed=seed,
        on_window=lambda done, total: on_progress("Predicting windows", done, total),
    )
    parts = iter(range(1, PARTS + 1))
    metrics = compute_metrics(
        measurements,
        seed=seed,
        factors=factors,
        on_part=lambda name: on_progress("Computing metrics", next(parts), PARTS),
    )
    return evaluation_of(opened, metrics, seed)


def evaluation_of(opened: ModelWindows, metrics: ModelMetrics, seed: int) -> Evaluation:
    """Metrics with the verdict and with what was evaluated."""
    return Evaluation(
        run=opened.model.run.path,
        update=opened.model.step,
        checkpoint=opened.model.hash,
        dataset=opened.dataset.path,
        version=opened.dataset.version,
        held_out=opened.held_out,
        seed=seed,
        description=opened.description,
        verdict=verdict(metrics),
        definitions=DEFINITIONS,
        metrics=metrics,
    )
