"""Parts of the sheets and videos of rollouts: rows of frames, borders, charts, a legend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.errors import UsageError
from wmtk.spaces import ArraySpec
from wmtk.stats import Numbers
from wmtk.viz.draw import traces
from wmtk.viz.draw.canvas import (
    BLUE,
    GREEN,
    INK,
    LINE,
    ORANGE,
    PURPLE,
    RED,
    Canvas,
    Color,
    Image,
    elide,
    enlarge,
    text_width,
    to_rgb,
)
from wmtk.viz.draw.marks import plain
from wmtk.viz.draw.traces import Trace, TraceChart
from wmtk.viz.rollouts import Rollout

OBSERVED, IMAGINED = GREEN, RED
TRUE, MODEL = ORANGE, BLUE
MODELS: tuple[Color, ...] = (BLUE, PURPLE, (0, 121, 107), (90, 90, 90))  # of several models
BORDER = 3
LINES = 44  # pixels of the lines of a chart
MOST_ROOM = 160  # pixels for the name of a line and a number
MOST_MODELS = 4
END = "end"  # the name of the chart of probabilities
MOST_NUMBERS = 8  # charts of vector observations

ERROR = "error: gray where equal, bright where the model is too bright, dark where too dark"


def choose_image(obs: dict[str, ArraySpec], key: str | None) -> str | None:
    """The image key to draw: the one given, or the first; None if there are none."""
    keys = [key for key, spec in obs.items() if spec.is_image]
    if key is not None and key not in keys:
        hint = f"It has: {', '.join(keys)}." if keys else "It has none: omit the image key."
        raise UsageError(f"The model has no images {key!r}.", hint)
    return key or (keys[0] if keys else None)


def image_rows(rollout: Rollout, key: str) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Names and frames (T, H, W, C) of the rows of a rollout; a dream has truth for the context."""
    truth, predicted = rollout.truth[key], rollout.predicted[key]
    if rollout.dream:
        yield "recorded", truth
        for number, future in enumerate(predicted, start=1):
            yield ("dream" if len(predicted) == 1 else f"dream, {number}"), future
        return
    yield "truth", truth
    if rollout.models:
        for name, future in zip(rollout.models, predicted, strict=True):
            yield name, future
            yield "error", difference(truth, future)
        return
    if len(predicted) == 1:
        yield "model", predicted[0]
    else:
        for number, future in enumerate(predicted, start=1):
            yield f"model, {number}", future
    yield "error", difference(truth, predicted[0])


def difference(truth: NDArray[np.uint8], predicted: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Gray where both are equal, bright where `predicted` is brighter."""
    return ((predicted.astype(np.int16) - truth + 255) // 2).astype(np.uint8)


def draw_frame(
    canvas: Canvas, x: int, y: int, frame: NDArray[Any], scale: int, color: Color
) -> None:
    """Draw an enlarged frame with a border."""
    pixels: Image = enlarge(to_rgb(frame[..., :3]), scale)
    height, width = pixels.shape[:2]
    canvas.paste(x, y, pixels)
    canvas.border(x, y, width, height, color, BORDER)


def phase_color(rollout: Rollout, row: int) -> Color:
    return OBSERVED if row < rollout.context else IMAGINED


def chart_traces(rollout: Rollout) -> list[list[Trace]]:
    """The lines of each chart: rewards, ends if they are learned, values if there are any."""
    charts = [_traces(rollout, "reward", rollout.reward, rollout.reward_predicted)]
    if rollout.end_predicted is not None:
        charts.append(_traces(rollout, END, rollout.end, rollout.end_predicted))
    if rollout.value is not None:
        charts.append([Trace("value", rollout.value.mean(0), MODEL)])
    return charts


def number_traces(rollout: Rollout) -> list[list[Trace]]:
    """The lines of observations that are no images, a chart for each number."""
    charts = []
    for key, rows in rollout.truth.items():
        if rows.dtype == np.uint8 and rows.ndim == 4:
            continue
        recorded = rows.reshape(len(rows), -1).astype(np.float64)
        true = np.full((rollout.rows, recorded.shape[1]), np.nan)
        true[: len(recorded)] = recorded
        predicted = rollout.predicted[key].reshape(-1, *true.shape).astype(np.float64)
        for index in range(true.shape[1]):
            name = key if true.shape[1] == 1 else f"{key}[{index}]"
            charts.append(_traces(rollout, name, true[:, index], predicted[:, :, index]))
    return charts[:MOST_NUMBERS]


def _traces(rollout: Rollout, name: str, true: Numbers, predicted: Numbers) -> list[Trace]:
    """The recorded values (T,), and the mean of samples (S, T) or, if compared, each model's."""
    recorded = Trace(name, true, TRUE)
    if not rollout.models:
        return [recorded, Trace("model", predicted.mean(0), MODEL)]
    lines = zip(rollout.models, predicted, MODELS, strict=False)
    return [recorded, *(Trace(model, values, color) for model, values, color in lines)]


def stack_charts(lines: list[list[Trace]], x: int, y: int, width: int) -> list[TraceChart]:
    """Charts below each other."""
    charts = []
    for group in lines:
        # Probabilities have a fixed scale, on which negligible ones look small.
        least = (0.0, 1.0) if group[0].name == END else (0.0, 0.0)
        charts.append(TraceChart(group, x, y, width, LINES, least))
        y += charts[-1].height + 4
    return charts


def draw_chart(canvas: Canvas, chart: TraceChart, rollout: Rollout) -> None:
    """Draw a chart and, above its lines, a bar that marks observed and imagined rows."""
    chart.draw(canvas)
    span, top = chart.width - traces.SCALES, chart.y + traces.NAMES
    ends = round((rollout.context - 0.5) * (span - 1) / (rollout.rows - 1))
    ends = min(span, ends)
    canvas.fill(chart.x, top - 4, ends, 3, OBSERVED)
    canvas.fill(chart.x + ends, top - 4, span - ends, 3, IMAGINED)


def draw_names(canvas: Canvas, chart: TraceChart, row: int | None = None) -> None:
    """Draw the names of the lines of a chart and, for a row, a cursor and the numbers there."""
    room = min(chart.width // len(chart.traces), MOST_ROOM)
    for number, trace in enumerate(chart.traces):
        x = chart.x + number * room
        canvas.fill(x, chart.y + 3, traces.SWATCH, traces.SWATCH, trace.color)
        known = row is not None and np.isfinite(trace.values[row])
        value = plain(float(f"{trace.values[row] + 0.0:.3g}")) if known else ""
        left, space = x + traces.SWATCH + 6, room - traces.SWATCH - 10
        text = f"{trace.name}  {value}"
        if value and text_width(text) > space:
            text = value  # the color identifies the line
        canvas.text(left, chart.y, elide(text, space))
    if row is not None:
        at = round(row * (chart.width - traces.SCALES - 1) / (len(chart.traces[0].values) - 1))
        canvas.fill(chart.x + at - 1, chart.y + traces.NAMES, 2, chart.lines, INK)


def legend(rollouts: list[Rollout], *, images: bool) -> list[tuple[Color | None, str]]:
    """The colors of sheets and videos with their meanings."""
    imagined = any(rollout.context < rollout.rows for rollout in rollouts)
    dream = rollouts[0].dream
    items: list[tuple[Color | None, str]] = [(OBSERVED, "observed by the model")]
    if dream:
        items.append((IMAGINED, "imagined: the policy acts in the model"))
    elif imagined:
        items.append((IMAGINED, "imagined by the model from the actions"))
    items.append((TRUE, "recorded"))
    if models := rollouts[0].models:
        items += [(color, name) for name, color in zip(models, MODELS, strict=False)]
    else:
        items.append((MODEL, "predicted by the model"))
    if rollouts[0].value is not None:
        items.append((None, "value: the critic's estimate of the return from a state on"))
    return [*items, (None, ERROR)] if images and not dream else items


def draw_key(canvas: Canvas, x: int, y: int, items: list[tuple[Color | None, str]]) -> int:
    """Draw colors with their meanings from left to right, in lines; returns the height."""
    left, top = x, y
    for color, text in items:
        needed = text_width(text) + (traces.SWATCH + 6 if color else 0)
        if x > left and x + needed > canvas.width - left:
            x, y = left, y + LINE + 2
        if color is not None:
            canvas.fill(x, y + 3, traces.SWATCH, traces.SWATCH, color)
            x += traces.SWATCH + 6
        canvas.text(x, y, text)
        x += text_width(text) + traces.GAP
    return y + LINE + 6 - top
