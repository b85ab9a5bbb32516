"""Imagined episodes of the policy of a run, and the calibration of its critic."""

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
from wmtk.viz.html_report.media import video_figure
from wmtk.viz.metrics import Bootstrap, return_quality
from wmtk.viz.rollouts import ImaginedEpisode, policy_rollouts
from wmtk.viz.videos.rollout_video import rollout_frames

VIDEO_EPISODES = 3  # imagined episodes in the video
BATCHES = 2  # batches of windows to start from
ARRAYS = ("action", "reward", "terminated", "truncated", "is_first", "mask")


def imagine_episodes(
    model: LoadedAgent,
    windows: Sequence[Batch],
    *,
    context: int,
    horizon: int,
    seed: int = 0,
    actions: ActionLook | None = None,
) -> list[ImaginedEpisode]:
    """Imagine one episode from the context of each window of the first batches."""
    episodes = []
    for number, batch in enumerate(windows[:BATCHES]):
        parts: dict[str, Any] = {
            name: operator.attrgetter(name)(batch)[:, :context] for name in ARRAYS
        }
        for group in ("obs", "info"):
            rows = getattr(batch, group)
            parts[group] = {key: values[:, :context] for key, values in rows.items()}
        starts = replace(batch, **parts)
        episodes += policy_rollouts(
            model, starts, horizon=horizon, seed=seed + number, actions=actions
        )
    return episodes


def policy_section(
    episodes: Sequence[ImaginedEpisode], image: str | None, history: Sequence[Mapping[str, Any]]
) -> Section:
    """A video of some imagined episodes, and imagined returns against predicted values."""
    context = episodes[0].rollout.context
    horizon = episodes[0].rollout.rows - context
    rollouts = [episode.rollout for episode in episodes]
    frames = rollout_frames(rollouts[:VIDEO_EPISODES], image, title="Imagined episodes")
    returns = np.array([float(episode.imagined_return.mean()) for episode in episodes])
    values = np.array([float(episode.value.mean()) for episode in episodes])
    quality = return_quality(returns, values, Bootstrap(np.arange(len(episodes))))
    rows = [
        ("Imagined episodes", f"{len(episodes)}"),
        ("Mean imagined return", format_interval(quality.true)),
        ("Mean value of the first state", format_interval(quality.imagined)),
        ("Correlation of return and value", format_interval(quality.correlation)),
    ]
    evaluated = [row for row in history if row.get("eval/return") is not None]
    if evaluated:
        last = evaluated[-1]
        rows.append(
            (
                f"Mean return in the environment, update {last['step']:,}",
                f"{last['eval/return']:.3g}, undiscounted",
            )
        )
    order = np.argsort(values, kind="stable").tolist()
    chart = Chart(
        "Calibration of the critic",
        "value of the first state",
        "imagined return",
        [
            Series(
                "imagined episodes",
                "model",
                values[order].tolist(),
                returns[order].tolist(),
                scatter=True,
                notes=[rollouts[number].title for number in order],
            )
        ],
        "On the dotted line, imagined returns equal the value predicted at the start.",
        "imagined return",
        kind="points",
        diagonal=True,
    )
    text = (
        f"The model observes {context} rows (green). Then the policy takes its most likely actions "
        f"for {horizon} steps and the model imagines the observations (red), for which there is no "
        "recording. The policy may exploit errors of the model: objects or events that do not "
        "exist in the task."
    )
    hint = "wmtk viz returns compares imagined returns with those of real episodes."
    content = joined(
        paragraph(text, soft=True),
        video_figure(
            frames, "Imagined episodes of the policy from recorded starts.", "Imagined episodes"
        ),
        element("div", table(rows, numbers=1), figure(chart), class_="charts"),
        paragraph(hint, soft=True),
    )
    return Section("policy", "Policy in imagination", content)
