"""The training so far, as the run recorded it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmtk.viz.html_report.charts import Chart, Series, figures
from wmtk.viz.html_report.markup import Section, joined, paragraph

MOST = 300  # points of a curve
# The name of a metric after "train/" and "val/": title, axis, whether the axis is logarithmic.
SHOWN = {
    "loss/constant_free": ("Loss without constants", "nats", True),
    "psnr": ("PSNR of reconstructions", "dB", False),
    "mse/reward": ("Error of the reward", "mean squared error", True),
    "kl": ("KL", "nats", False),
    "entropy/posterior": ("Entropy after seeing the frame", "nats", False),
    "entropy/prior": ("Entropy before seeing it", "nats", False),
    "codes/perplexity": ("Classes in use", "mean perplexity", False),
    "entropy/actor": ("Entropy of the actor", "nats", False),
    "imagined/return": ("Imagined return", "return", False),
    "critic/value": ("Value of the critic", "return", False),
    "return": ("Return of the policy, played", "return", False),
}
SOURCES = {"train": ("training", "model"), "val": ("held out", "other"), "eval": ("played", "best")}

Rows = Sequence[Mapping[str, Any]]


def learning(history: Rows) -> Section | None:
    """Nothing where a run has recorded nothing."""
    charts = [chart for name in SHOWN for chart in _charts(name, history)]
    if not charts:
        return None
    text = (
        "Recorded while the model was trained. Curves of more than a few hundred points are means."
    )
    return Section("learning", "Learning", joined(paragraph(text, soft=True), figures(charts)))


def _charts(name: str, history: Rows) -> list[Chart]:
    """A chart of a metric, or one for each observation key that it is recorded of."""
    title, unit, log = SHOWN[name]
    recorded = dict.fromkeys(
        key.partition("/")[2] for row in history for key in row if key != "step"
    )
    charts = []
    for each in recorded:
        if each != name and each.rpartition("/")[0] != name:
            continue
        named = f"{title} of {each.rpartition('/')[2]}" if each != name else title
        series = [
            Series(words, look, *thinned(history, f"{source}/{each}"))
            for source, (words, look) in SOURCES.items()
        ]
        some = [one for one in series if one.x]
        positive = all(y > 0 for one in some for y in one.y)
        if some:
            charts.append(
                Chart(named, "update", unit, some, group="learning", log=log and positive)
            )
    return charts


def thinned(history: Rows, name: str, most: int = MOST) -> tuple[list[float], list[float]]:
    """Updates and values of a metric, neighbors averaged where there are many."""
    points = [(row["step"], row[name]) for row in history if row.get(name) is not None]
    if not points:
        return [], []
    pieces = np.array_split(np.asarray(points, np.float64), min(most, len(points)))
    means = np.array([piece.mean(0) for piece in pieces])
    return np.round(means[:, 0]).tolist(), means[:, 1].tolist()
