"""`wmtk.viz.report`: the evaluation of a model as one HTML file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wmtk.reprs import brief_repr
from wmtk.version import code_version
from wmtk.viz.draw.episode_view import view_of
from wmtk.viz.evaluation.measurements import SAMPLES
from wmtk.viz.evaluation.verdict import Verdict, verdict
from wmtk.viz.html_report import (
    ReportInfo,
    collect_content,
    report_page,
    require_report,
    write_report,
)
from wmtk.viz.output_files import no_progress
from wmtk.viz.windows import (
    CONTEXT,
    HORIZON,
    WINDOWS,
    DatasetLike,
    ModelWindows,
    OnProgress,
    open_model,
    open_windows,
)

if TYPE_CHECKING:
    from wmtk.agent.load import LoadedModel


@dataclass(frozen=True)
class ReportFile:
    """An HTML report that was written, and the verdict in it."""

    path: Path
    run: Path
    update: int
    checkpoint: str  # hash of the weights
    dataset: Path
    version: int  # of the dataset
    held_out: str  # description of the episodes
    windows: int
    episodes: int
    seed: int
    reliable_steps: int  # the last step up to which predictions are reliable
    steps_above_baselines: int
    verdict: Verdict
    bytes: int

    __repr__ = brief_repr


def report(
    run: str | Path | LoadedModel,
    dataset: DatasetLike,
    out: str | Path | None = None,
    *,
    context: int = CONTEXT,
    horizon: int = HORIZON,
    samples: int = SAMPLES,
    windows: int = WINDOWS,
    episodes: int | None = None,
    seed: int = 0,
    checkpoint: str = "latest",
    device: str = "auto",
    on_progress: OnProgress = no_progress,
) -> ReportFile:
    """Write the evaluation of a model into one HTML file that opens without a network.

    The file has the verdict, videos, curves, rewards and ends, codes and their effects, the
    dataset, the settings of the run and definitions.

    Args:
        run: A run directory, or a loaded model.
        dataset: A dataset of the same task, or its path.
        out: The `.html` to write; by default `report/report.html` in the run directory.
        context: Rows of each window that the model observes.
        horizon: Rows that it imagines; fewer if no episode is long enough.
        samples: Futures imagined of each window.
        windows: Number of windows.
        episodes: Episodes to take them from at most; None for all.
        seed: Seed of windows, latents and intervals.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        on_progress: Called with a description, the finished part and the total.

    Returns:
        The file in `.path`, and the verdict.

    Example:
        >>> result = wmtk.viz.report(run, data, "report.html", horizon=4, windows=4, samples=2)
        >>> result.path.stat().st_size == result.bytes
        True
    """
    from wmtk.agent.load import LoadedAgent

    if out is not None:
        require_report(Path(out))
    model = open_model(run, checkpoint, device)
    path = model.run.path / "report" / "report.html" if out is None else Path(out)
    require_report(path)
    opened = open_windows(
        model,
        dataset,
        context=context,
        horizon=horizon,
        count=windows,
        episodes=episodes,
        seed=seed,
    )
    content = collect_content(
        model,
        opened.batches(),
        context=context,
        samples=samples,
        seed=seed,
        earlier=_earlier(model, device),
        update=model.step,
        policy=model if isinstance(model, LoadedAgent) else None,
        actions=view_of(opened.dataset).actions,
        on_progress=on_progress,
    )
    page = report_page(
        content,
        _info(opened, seed),
        on_video=lambda done, total: on_progress("Drawing videos", done, total),
    )
    size = write_report(path, page)
    metrics = content.metrics
    return ReportFile(
        path=path,
        run=model.run.path,
        update=model.step,
        checkpoint=model.hash,
        dataset=opened.dataset.path,
        version=opened.dataset.version,
        held_out=opened.held_out,
        windows=len(opened.windows),
        episodes=opened.episodes,
        seed=seed,
        reliable_steps=metrics.reliable_steps,
        steps_above_baselines=metrics.steps_above_baselines,
        verdict=verdict(metrics),
        bytes=size,
    )


def _earlier(model: LoadedModel, device: str) -> Iterator[tuple[int, LoadedModel]]:
    """Earlier checkpoints of the same training; none of a policy, whose world model is frozen."""
    from wmtk.agent.load import load

    for step in model.run.checkpoints.steps():
        if step < model.step and model.run.kind != "policy":
            yield step, load(model.run.path, str(step), device)


def _info(opened: ModelWindows, seed: int) -> ReportInfo:
    from wmtk.datasets.storage import atomic
    from wmtk.runs.metrics_log import read_metrics

    model = opened.model
    folder = model.run.path
    commands = folder / "command.txt"
    return ReportInfo(
        name=folder.resolve().name,
        run=str(folder),
        kind=model.run.kind,
        update=model.step,
        hash=model.hash,
        run_json=model.run.about,
        config=(folder / "config.yaml").read_text(),
        commands=commands.read_text() if commands.exists() else "",
        history=read_metrics(folder),
        dataset=opened.dataset,
        held_out=opened.held_out,
        seed=seed,
        created=atomic.timestamp(),
        command=shlex.join(["wmtk", *sys.argv[1:]]),
        version=code_version(),
    )
