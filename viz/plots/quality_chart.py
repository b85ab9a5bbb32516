"""The quality of several models' predictions at each step of the horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from wmtk.stats import Estimate
from wmtk.viz.evaluation.obs_quality import ObsQuality
from wmtk.viz.plots.curves import Curve, CurvePanel, curve_figure
from wmtk.viz.plots.figures import BASELINES, PALETTE


def quality_figure(
    names: Sequence[str],
    models: Sequence[Mapping[str, ObsQuality]],
    *,
    title: str = "",
    caption: str = "",
) -> Figure:
    """Curves of PSNR (or SNR) and skill of each model, four panels for each observation key."""
    return curve_figure(quality_panels(names, models), title=title, caption=caption)


def quality_panels(
    names: Sequence[str], models: Sequence[Mapping[str, ObsQuality]]
) -> list[CurvePanel]:
    """For each key: decibels, and skill (1 is perfect, 0 as good as the baseline)."""
    panels = []
    for key, first in models[0].items():
        score = "PSNR" if first.image else "SNR"
        rows = {
            "score": (f"{key}: {score}", f"{score} (dB)"),
            "skill": (f"{key}: skill against copying the last frame", "skill"),
            "moving": (f"{key}: skill on moving pixels", "skill"),
            "informed": (f"{key}: skill against the average frame", "skill"),
        }
        for field, (title, unit) in rows.items():
            curves = [
                Curve(name, getattr(model[key], field), PALETTE[number % len(PALETTE)])
                for number, (name, model) in enumerate(zip(names, models, strict=True))
            ]
            if field == "score":
                baselines = {"last frame copied": first.copy, "average frame": first.average}
                curves += [
                    Curve(name, without_interval(values.value), color, dashed=True)
                    for (name, values), color in zip(baselines.items(), BASELINES, strict=True)
                ]
            panels.append(CurvePanel(title, curves, "imagined step", unit, zero=field != "score"))
    return panels


def without_interval(values: Sequence[float] | np.ndarray) -> Estimate:
    """Numbers whose uncertainty is not drawn."""
    numbers = np.asarray(values, np.float64)
    unknown = np.full(numbers.shape, np.nan)
    return Estimate(numbers, unknown, unknown)
