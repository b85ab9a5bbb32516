"""Numbers with their intervals as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, SupportsFloat

import numpy as np

from wmtk.viz.metrics import Estimate

if TYPE_CHECKING:
    from wmtk.viz.evaluation.model_metrics import ImaginedReturns


def format_interval(estimate: Estimate, digits: int = 2) -> str:
    """Value and interval: 0.52 (0.41 to 0.63)."""
    if np.isnan(estimate.value):
        return "-"
    text = _fixed(estimate.value, digits)
    if np.isnan(estimate.low):
        return text
    return f"{text} ({_fixed(estimate.low, digits)} to {_fixed(estimate.high, digits)})"


def format_margin(estimate: Estimate, digits: int = 2) -> str:
    """Value and half of the width of its interval: 0.52 ±.11."""
    if np.isnan(estimate.value):
        return "-"
    text = _fixed(estimate.value, digits)
    if np.isnan(estimate.low):
        return text
    half = f"{(estimate.high - estimate.low) / 2:.{digits}f}"
    return f"{text} ±{half.removeprefix('0') if float(half) else half}"


RETURN_COLUMNS = ("returns", "true", "predicted", "correlation")


def return_rows(*parts: ImaginedReturns) -> Iterator[tuple[str, str, str, str]]:
    """Rows of a table of returns with the columns `RETURN_COLUMNS`."""
    for part in {part.steps: part for part in parts}.values():
        for kind, quality in ((", discounted", part.discounted), ("", part.undiscounted)):
            means = format_margin(quality.true), format_margin(quality.imagined)
            yield f"over {part.steps} steps{kind}", *means, format_interval(quality.correlation)


def _fixed(number: SupportsFloat, digits: int) -> str:
    return f"{round(float(number), digits) + 0.0:.{digits}f}"  # no minus before a zero
