"""Numbers with their intervals, as text."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np

from wmtk.viz.metrics import Estimate


def spoken(estimate: Estimate, digits: int = 2) -> str:
    """A number and the ends of its interval: 0.52 (0.41 to 0.63)."""
    if np.isnan(estimate.value):
        return "-"
    text = _fixed(estimate.value, digits)
    if np.isnan(estimate.low):
        return text
    return f"{text} ({_fixed(estimate.low, digits)} to {_fixed(estimate.high, digits)})"


def within(estimate: Estimate, digits: int = 2) -> str:
    """A number and half of the width of its interval: 0.52 ±.11."""
    if np.isnan(estimate.value):
        return "-"
    text = _fixed(estimate.value, digits)
    if np.isnan(estimate.low):
        return text
    half = f"{(estimate.high - estimate.low) / 2:.{digits}f}"
    return f"{text} ±{half.removeprefix('0') if float(half) else half}"


def _fixed(number: SupportsFloat, digits: int) -> str:
    return f"{round(float(number), digits) + 0.0:.{digits}f}"  # no minus before a zero
