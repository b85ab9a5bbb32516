"""How the use of codes changes while a model is trained: from its checkpoints, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wmtk.stats import Estimate, Numbers
from wmtk.viz.draw.canvas import BLUE, GRAY, LINE, ORANGE, Canvas, Image, elide
from wmtk.viz.metrics.codes import CodeUsage, usage_distance
from wmtk.viz.metrics.divergences import entropy
from wmtk.viz.plots.code_map import map_pixels
from wmtk.viz.plots.curves import Curve, Panel, curve_chart

MARGIN = 20
HEAD = 30  # pixels above the maps, for what they are
CAPTION = LINE + 2
GAP = 16
MAP = 168  # pixels that a map takes, roughly
MOST_MAPS = 10  # of checkpoints, spread over the training


@dataclass(frozen=True)
class CodeMoment:
    """The use of codes after some updates."""

    update: int
    usage: CodeUsage
    prior: Numbers  # (V, K)

    @property
    def distance(self) -> Numbers:
        """(V,), how far the use by the prior is from that by the posterior."""
        return usage_distance(self.usage.usage, self.prior)


def history_sheet(moments: Sequence[CodeMoment], *, title: str = "", subtitle: str = "") -> Image:
    """Curves over the checkpoints, and below them a small map of each."""
    assert moments, "nothing to draw"
    V, K = moments[0].usage.usage.shape
    note = "Bands reach from the lowest variable to the highest. Maps: a row is a variable."
    chart = curve_chart(history_panels(moments), title=title, subtitle=f"{subtitle} {note}")
    cell = max(2, MAP // max(V, K))
    wide, high = K * cell + GAP, V * cell + CAPTION + GAP
    columns = max(1, (chart.shape[1] - 2 * MARGIN + GAP) // wide)
    shown = spread(moments, MOST_MAPS)
    rows = -(-len(shown) // columns)
    parts = [("posterior, having seen the frame", lambda m: m.usage.usage)]
    parts.append(("prior, before seeing it", lambda m: m.prior))
    canvas = Canvas(chart.shape[1], chart.shape[0] + len(parts) * (HEAD + rows * high) + MARGIN)
    canvas.paste(0, 0, chart)
    y = chart.shape[0]
    for name, get in parts:
        y = _draw_maps(canvas, y, name, shown, get, cell, columns)
    return canvas.pixels()


def _draw_maps(
    canvas: Canvas,
    y: int,
    name: str,
    moments: Sequence[CodeMoment],
    get: Callable[[CodeMoment], Numbers],
    cell: int,
    columns: int,
) -> int:
    """A map for each moment; returns where the next part begins."""
    V, K = moments[0].usage.usage.shape
    wide, high = K * cell + GAP, V * cell + CAPTION + GAP
    text = f"{name}: the darker, the more a class is used; pale red where it is dead"
    canvas.text(MARGIN, y, elide(text, canvas.width - 2 * MARGIN, 15), size=15)
    y += HEAD
    for number, moment in enumerate(moments):
        row, column = divmod(number, columns)
        x, top = MARGIN + column * wide, y + row * high
        canvas.text(x, top, f"update {moment.update:,}", size=12, color=GRAY)
        canvas.paste(x, top + CAPTION, map_pixels(get(moment), cell, moment.usage.threshold))
    return int(y + -(-len(moments) // columns) * high)


def history_panels(moments: Sequence[CodeMoment]) -> list[Panel]:
    """Perplexity, information, dead classes, and how far the prior is from the posterior."""
    K = moments[0].usage.usage.shape[1]
    places = [f"{moment.update:,}" for moment in moments]
    used = [np.exp(entropy(moment.prior)) for moment in moments]
    dead = [float((moment.prior < moment.usage.threshold).mean()) for moment in moments]
    curves = {
        f"perplexity of a variable, of {K}": [
            Curve("posterior", _over_variables([m.usage.perplexity for m in moments]), BLUE),
            Curve("prior", _over_variables(used), ORANGE),
        ],
        "information of a variable about the frame, nats": [
            Curve("posterior", _over_variables([m.usage.information for m in moments]), BLUE)
        ],
        "dead classes, of all": [
            Curve("posterior", _plain([m.usage.dead_share for m in moments]), BLUE),
            Curve("prior", _plain(dead), ORANGE),
        ],
        "use of classes that prior and posterior do not share": [
            Curve("a variable", _over_variables([m.distance for m in moments]), BLUE)
        ],
    }
    return [Panel(title, lines, zero=True, places=places) for title, lines in curves.items()]


def spread(moments: Sequence[CodeMoment], most: int) -> list[CodeMoment]:
    """Some of them, the first and the last among them."""
    chosen = np.unique(np.round(np.linspace(0, len(moments) - 1, min(most, len(moments)))))
    return [moments[int(number)] for number in chosen]


def _over_variables(values: Sequence[Numbers]) -> Estimate:
    """Means, with the lowest and the highest around them."""
    rows = np.stack(values)
    return Estimate(rows.mean(1), rows.min(1), rows.max(1))


def _plain(values: Sequence[float]) -> Estimate:
    nothing = np.full(len(values), np.nan)
    return Estimate(np.array(values), nothing, nothing)
