"""The dataset: how much there is, how it went, who made it, what it looks like."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wmtk.datasets import Dataset
from wmtk.datasets.summary import Statistics, Summary, summarize
from wmtk.viz.html_report.charts import histogram
from wmtk.viz.html_report.markup import Section, element, folded, joined, paragraph, table
from wmtk.viz.html_report.media import picture
from wmtk.viz.sheets.contact_sheet import dataset_sheet

EPISODES, FRAMES = 3, 8  # of the sheet


def data_section(dataset: Dataset, held_out: str, seed: int) -> Section:
    found = summarize(dataset)
    sheet = dataset_sheet(dataset, episodes=EPISODES, frames=FRAMES, seed=seed)
    episodes = dataset.episodes
    content = joined(
        paragraph(f"The model was looked at with {held_out}.", soft=True),
        table(_facts(found)),
        element(
            "div",
            histogram("Returns of episodes", "return", episodes.total_reward),
            histogram("Lengths of episodes", "steps", episodes.length),
            class_="charts",
        ),
        picture(
            sheet.pixels,
            "Episodes of the dataset, each from its first frame to its last.",
            "Frames of some episodes",
        ),
        folded("Arrays", table(_arrays(found), ("array", "space", "type", "bytes a row"), 1)),
        folded(
            "Who made it",
            table(_makers(found), ("policy", "task", "code", "episodes", "mean return"), 2),
        ),
    )
    return Section("data", "Dataset", content)


def _facts(found: Summary) -> Iterator[tuple[str, str]]:
    yield "Task", found.task or "unknown"
    yield "Episodes", f"{found.episodes:,}"
    yield "Steps", f"{found.steps:,}"
    if found.returns and found.lengths:
        yield "Return", _spread(found.returns)
        yield "Length", _spread(found.lengths)
        ends = {"terminated": "ended", "truncated": "cut off by a time limit", "cut": "cut short"}
        known = [f"{n:,} {ends.get(name, name)}" for name, n in found.ends.items() if n]
        yield "Endings", ", ".join(known)
    yield "Size", f"{found.stored_bytes / 1e6:,.1f} MB on disk, {found.raw_bytes / 1e6:,.1f} MB raw"
    yield "Version", f"{found.version}, of {found.id}"


def _spread(spread: Statistics) -> str:
    return f"{spread.mean:.4g} ± {spread.std:.4g}, from {spread.min:.4g} to {spread.max:.4g}"


def _arrays(found: Summary) -> Iterator[tuple[str, str, str, str]]:
    for array in found.arrays:
        space = array.space.removesuffix(f" {array.dtype}")
        yield array.path, space, array.dtype, f"{array.row_bytes:,}"


def _makers(found: Summary) -> Iterator[tuple[str, ...]]:
    for maker in found.provenance:
        weights = f" ({maker.checkpoint[:8]})" if maker.checkpoint else ""
        yield (
            f"{maker.policy or 'unknown'}{weights}",
            maker.env_id or "unknown",
            maker.code_version or "unknown",
            f"{maker.episodes:,}",
            f"{np.float64(maker.mean_return):.4g}",
        )
