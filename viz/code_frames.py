"""The discrete codes of all frames of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wmtk.datasets import Batch
from wmtk.errors import UsageError
from wmtk.stats import Numbers
from wmtk.viz.evidence import Predictor


def watch_codes(
    model: Predictor,
    windows: Sequence[Batch],
    *,
    seed: int = 0,
    on_windows: Callable[[int], None] = lambda count: None,
) -> tuple[Numbers, Numbers]:
    """Posterior and prior of each frame: (F, V, K)."""
    after, before = [], []
    for number, batch in enumerate(windows):
        seen = model.observe_batch(batch, seed + number)
        if seen.latent == "gaussian":
            raise UsageError(
                "The model has Gaussian latents: there are no codes.",
                "Look at one with categorical or binary latents.",
            )
        after.append(seen.posterior[batch.mask])
        before.append(seen.prior[batch.mask])
        on_windows(len(batch.reward))
    return (
        np.concatenate(after).astype(np.float64),
        np.concatenate(before).astype(np.float64),
    )
