"""How a model uses its discrete latents: distributions of codes, maps, history over training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wmtk.datasets import Batch
from wmtk.errors import UsageError
from wmtk.stats import Numbers
from wmtk.viz.evaluation.measurements import Predictor


def code_distributions(
    model: Predictor,
    windows: Sequence[Batch],
    *,
    seed: int = 0,
    on_windows: Callable[[int], None] = lambda count: None,
) -> tuple[Numbers, Numbers]:
    """Posterior and prior distributions of the F rows of windows, each (F, V, K)."""
    posteriors, priors = [], []
    for number, batch in enumerate(windows):
        states = model.observe_batch(batch, seed + number)
        if states.latent == "gaussian":
            raise UsageError(
                "The model has Gaussian latents: there are no codes.",
                "Code usage needs categorical or binary latents.",
            )
        posteriors.append(states.posterior[batch.mask])
        priors.append(states.prior[batch.mask])
        on_windows(len(batch.reward))
    return (
        np.concatenate(posteriors).astype(np.float64),
        np.concatenate(priors).astype(np.float64),
    )
