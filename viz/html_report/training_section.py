"""Metrics that the run recorded during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmtk.viz.html_report.charts import Chart, Series, figures
from wmtk.viz.html_report.markup import Section, joined, paragraph

MAX_POINTS = 300  # of a curve
# The name of a metric after "train/" and "val/": title, unit, whether the axis is logarithmic.
METRICS = {
    "loss/constant_free": ("Loss without constants", "nats", True),
    "psnr": ("PSNR of reconstructions", "dB", False),
    "mse/reward": ("Error of the reward", "mean squared error", True),
    "kl": ("KL", "nats", False),
    "entropy/posterior": ("Entropy of the posterior", "nats", False),
    "entropy/prior": ("Entropy of the prior", "nats", False),
    "codes/perplexity": ("Perplexity of the codes", "mean perplexity", False),
    "entropy/actor": ("Entropy of the actor", "nats", False),
    "imagined/return": ("Imagined return", "return", False),
    "critic/value": ("Value of the critic", "return", False),
    "return": ("Return of evaluation episodes", "return", False),
}
SOURCES = {
    "train": ("training", "model"),
    "val": ("held out", "other"),
    "eval": ("evaluation", "best"),
}

Rows = Sequence[Mapping[str, Any]]


def training_section(history: Rows) -> Section | None:
    """Curves of the metrics over updates; None if the run has recorded none."""
    charts = [chart for name in METRICS for chart in _charts(name, history)]
    if not charts:
        return None
    text = (
        "Metrics recorded during training. Curves are averaged down to at most "
        f"{MAX_POINTS} points."
    )
    return Section("training", "Training", joined(paragraph(text, soft=True), figures(charts)))


def _charts(name: str, history: Rows) -> list[Chart]:
    """A chart of a metric, or one for each observation key that it is recorded of."""
    title, unit, log = METRICS[name]
    recorded = dict.fromkeys(
        key.partition("/")[2] for row in history for key in row if key != "step"
    )
    charts = []
    for key in recorded:
        if key != name and key.rpartition("/")[0] != name:
            continue
        key_title = f"{title} of {key.rpartition('/')[2]}" if key != name else title
        curves = [
            Series(label, color, *thinned(history, f"{source}/{key}"))
            for source, (label, color) in SOURCES.items()
        ]
        series = [one for one in curves if one.x]
        positive = all(y > 0 for one in series for y in one.y)
        if series:
            charts.append(
                Chart(key_title, "update", unit, series, group="training", log=log and positive)
            )
    return charts


def thinned(history: Rows, name: str, most: int = MAX_POINTS) -> tuple[list[float], list[float]]:
    """Updates and values of a metric; neighbors are averaged to at most `most` points."""
    points = [(row["step"], row[name]) for row in history if row.get(name) is not None]
    if not points:
        return [], []
    groups = np.array_split(np.asarray(points, np.float64), min(most, len(points)))
    means = np.array([group.mean(0) for group in groups])
    return np.round(means[:, 0]).tolist(), means[:, 1].tolist()
