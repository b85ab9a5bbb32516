"""Whether the latents of a world model have collapsed: they carry nothing of the observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

BY_NOW, UNUSED = 500, 0.1  # updates after which a KL of fewer nats is a sign of collapse
STUCK = 0.5  # nats: categorical codes of less entropy pass no gradient on
RECENT = 5  # reports on training batches, over which is averaged


@dataclass(frozen=True)
class Collapse:
    """Collapsed latents; `stuck` if they are constant, so that they get no gradient either."""

    kl: float  # nats
    stuck: bool


def collapsed_latents(reports: Sequence[Mapping[str, Any]], updates: int) -> Collapse | None:
    """The collapse that the newest reports of a run show, on held-out data where there is any."""
    if updates < BY_NOW:
        return None
    for side, count in (("val", 1), ("train", RECENT)):
        recent = [r for r in reports if r.get(f"{side}/kl") is not None][-count:]
        if not recent:
            continue
        kl = fmean(report[f"{side}/kl"] for report in recent)
        entropy = recent[-1].get(f"{side}/entropy/posterior")
        categorical = f"{side}/codes/perplexity" in recent[-1]
        stuck = categorical and entropy is not None and entropy < STUCK
        return Collapse(kl, stuck) if kl < UNUSED else None
    return None
