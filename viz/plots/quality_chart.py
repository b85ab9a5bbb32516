"""The metrics of models at each step as panels of curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wmtk.stats import Estimate
from wmtk.viz.evaluation.obs_quality import ObsQuality
from wmtk.viz.plots.curves import COLORS, QUIET, Curve, Panel


def comparison_panels(
    names: Sequence[str], models: Sequence[Mapping[str, ObsQuality]]
) -> list[Panel]:
    """For each observation key: dB, skill, what moves, and what is known beyond the average."""
    panels = []
    for key, first in models[0].items():
        score = "PSNR" if first.image else "SNR"
        rows = {
            f"{key}: {score}, dB": "score",
            f"{key}: skill against copying the last frame": "skill",
            f"{key}: skill on what moves": "moving",
            f"{key}: skill of the futures' mean against the average frame": "informed",
        }
        for title, field in rows.items():
            curves = [
                Curve(name, getattr(model[key], field), COLORS[number % len(COLORS)])
                for number, (name, model) in enumerate(zip(names, models, strict=True))
            ]
            if field == "score":
                curves += [
                    Curve("copy", _plain(first.copy), QUIET, dashed=True),
                    Curve("average", _plain(first.average), (190, 150, 90), dashed=True),
                ]
            panels.append(Panel(title, curves, zero=field != "score"))
    return panels


def _plain(found: Estimate) -> Estimate:
    """The same without intervals."""
    nothing = np.full(found.value.shape, np.nan)
    return Estimate(found.value, nothing, nothing)
