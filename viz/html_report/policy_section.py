"""The policy, where a run has one: what it dreams, and whether its critic foresaw that."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wmtk.agent.load import LoadedAgent
from wmtk.datasets import Batch
from wmtk.viz.draw.actions import ActionLook
from wmtk.viz.evaluation.interval_text import format_interval
from wmtk.viz.html_report.charts import Chart, Series, figure
from wmtk.viz.html_report.markup import Section, element, joined, paragraph, table
from wmtk.viz.html_report.media import film
from wmtk.viz.metrics import Bootstrap, return_quality
from wmtk.viz.rollouts import ImaginedEpisode, policy_rollouts
from wmtk.viz.videos.rollout_video import rollout_frames

SHOWN = 3  # dreams in the film
ROWS = ("action", "reward", "terminated", "truncated", "is_first", "mask")


def policy_dreams(
    model: LoadedAgent,
    windows: Sequence[Batch],
    *,
    context: int,
    horizon: int,
    seed: int = 0,
    actions: ActionLook | None = None,
) -> list[ImaginedEpisode]:
    """A dream from the start of each window of the first batches, 16 or so."""
    found = []
    for number, batch in enumerate(windows[:2]):
        parts: dict[str, Any] = {
            name: operator.attrgetter(name)(batch)[:, :context] for name in ROWS
        }
        for group in ("obs", "info"):
            rows = getattr(batch, group)
            parts[group] = {key: values[:, :context] for key, values in rows.items()}
        starts = replace(batch, **parts)
        found += policy_rollouts(
            model, starts, horizon=horizon, seed=seed + number, actions=actions
        )
    return found


def dream_section(
    found: Sequence[ImaginedEpisode], image: str | None, history: Sequence[Mapping[str, Any]]
) -> Section:
    """A film of some dreams, and what all of them brought beside what was expected."""
    context = found[0].rollout.context
    horizon = found[0].rollout.rows - context
    frames = rollout_frames([dream.rollout for dream in found[:SHOWN]], image, title="Dreams")
    brought = np.array([float(dream.imagined_return.mean()) for dream in found])
    expected = np.array([float(dream.value.mean()) for dream in found])
    episodes = [dream.rollout.title for dream in found]
    quality = return_quality(brought, expected, Bootstrap(np.arange(len(found))))
    rows = [
        ("Starts", f"{len(found)}"),
        ("What the dreams brought, on average", format_interval(quality.true)),
        ("What the critic expected of them", format_interval(quality.imagined)),
        ("Correlation of both", format_interval(quality.correlation)),
    ]
    played = [row for row in history if row.get("eval/return") is not None]
    if played:
        last = played[-1]
        rows.append(
            (
                f"Return of episodes that it played, at update {last['step']:,}",
                f"{last['eval/return']:.3g}, not discounted",
            )
        )
    order = np.argsort(expected, kind="stable").tolist()
    chart = Chart(
        "Did the critic foresee it?",
        "expected",
        "brought",
        [
            Series(
                "dreams",
                "model",
                expected[order].tolist(),
                brought[order].tolist(),
                loose=True,
                notes=[episodes[number] for number in order],
            )
        ],
        "On the dotted line, dreams bring what the critic expected at their beginning.",
        "dream",
        kind="points",
        diagonal=True,
    )
    text = (
        f"The model sees {context} rows (green); then the policy takes its likeliest actions for "
        f"{horizon} steps and the model imagines what comes of them (red). Nothing of that was "
        "recorded. Things that the task does not have are errors of the model that the policy may "
        "be living on."
    )
    more = "wmtk viz returns plays episodes, and compares what they bring with what was imagined."
    content = joined(
        paragraph(text, soft=True),
        film(frames, "Dreams of the policy, from recorded starts.", "Dreams"),
        element("div", table(rows, numbers=1), figure(chart), class_="charts"),
        paragraph(more, soft=True),
    )
    return Section("dreams", "Dreams of the policy", content)
