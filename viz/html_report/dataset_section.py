"""The dataset: size, returns, example episodes, arrays and provenance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.datasets import Dataset
from wmtk.datasets.summary import Statistics, Summary, summarize
from wmtk.viz.html_report.charts import histogram
from wmtk.viz.html_report.markup import Section, element, folded, joined, paragraph, table
from wmtk.viz.html_report.media import image_figure
from wmtk.viz.sheets.contact_sheet import dataset_sheet

EPISODES, FRAMES = 3, 8  # of the contact sheet
ENDS = {"truncated": "truncated by a time limit", "cut": "cut short"}


def dataset_section(dataset: Dataset, held_out: str, seed: int) -> Section:
    summary = summarize(dataset)
    sheet = dataset_sheet(dataset, episodes=EPISODES, frames=FRAMES, seed=seed)
    episodes = dataset.episodes
    content = joined(
        paragraph(f"The model was evaluated on {held_out}.", soft=True),
        table(_facts(summary)),
        element(
            "div",
            histogram("Returns of episodes", "return", episodes.total_reward),
            histogram("Lengths of episodes", "steps", episodes.length),
            class_="charts",
        ),
        image_figure(
            sheet.pixels,
            "Episodes of the dataset, each from its first to its last frame.",
            "Frames of some episodes",
        ),
        folded("Arrays", table(_arrays(summary), ("array", "space", "type", "bytes per row"), 1)),
        folded(
            "Sources of the episodes",
            table(_sources(summary), ("policy", "task", "code", "episodes", "mean return"), 2),
        ),
    )
    return Section("data", "Dataset", content)


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "Task", summary.task or "unknown"
    yield "Episodes", f"{summary.episodes:,}"
    yield "Steps", f"{summary.steps:,}"
    if summary.returns and summary.lengths:
        yield "Return", _distribution(summary.returns)
        yield "Length", _distribution(summary.lengths)
        ends = [f"{n:,} {ENDS.get(name, name)}" for name, n in summary.ends.items() if n]
        yield "Ends of episodes", ", ".join(ends)
    size = f"{summary.stored_bytes / 1e6:,.1f} MB on disk, {summary.raw_bytes / 1e6:,.1f} MB raw"
    yield "Size", size
    yield "Version", f"{summary.version} of {summary.id}"


def _distribution(statistics: Statistics) -> str:
    mean, std = statistics.mean, statistics.std
    return f"{mean:.4g} ± {std:.4g}, from {statistics.min:.4g} to {statistics.max:.4g}"


def _arrays(summary: Summary) -> Iterator[tuple[str, str, str, str]]:
    for array in summary.arrays:
        space = array.space.removesuffix(f" {array.dtype}")
        yield array.path, space, array.dtype, f"{array.row_bytes:,}"


def _sources(summary: Summary) -> Iterator[tuple[str, ...]]:
    for source in summary.provenance:
        weights = f" ({source.checkpoint[:8]})" if source.checkpoint else ""
        yield (
            f"{source.policy or 'unknown'}{weights}",
            source.env_id or "unknown",
            source.code_version or "unknown",
            f"{source.episodes:,}",
            f"{np.float64(source.mean_return):.4g}",
        )
