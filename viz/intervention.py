"""Interventions on discrete latents: decoded images with one code set to other classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.load import LoadedModel
from wmtk.agent.outputs import Floats, Posterior
from wmtk.errors import UsageError
from wmtk.stats import Numbers
from wmtk.viz.metrics.codes import CodeUsage
from wmtk.viz.metrics.frames import to_unit

MOST_CLASSES = 12  # of a variable, the most frequent ones


@dataclass(frozen=True)
class Intervention:
    """F frames, decoded with each of V variables set to each of its classes in use."""

    before: NDArray[np.uint8]  # (F, H, W, C), reconstructions
    chosen: NDArray[np.int64]  # (F, V), classes of the posterior sample
    classes: list[NDArray[np.int64]]  # for each variable, the classes it was set to
    images: list[NDArray[np.uint8]]  # for each variable, (F, classes, H, W, C)
    regions: Numbers  # (V, H, W), mean absolute change of each pixel, 0 to 1

    @property
    def effect(self) -> Numbers:
        """(V,), mean absolute change of a pixel by each variable, 0 to 1."""
        return np.asarray(self.regions.mean((1, 2)))


def set_codes(
    model: LoadedModel,
    posterior: Posterior,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    image: str,
    usage: CodeUsage,
    *,
    most_classes: int = MOST_CLASSES,
    on_variable: Callable[[int, int], None] = lambda done, total: None,
) -> Intervention:
    """Set each code of some frames to each class in use, and decode.

    Args:
        model: The model that decodes latent states.
        posterior: Its posterior states of N windows.
        rows: Indices of F frames: windows (F,) and steps (F,).
        image: The observation key to decode.
        usage: Use of the classes, which weights them in `Intervention.regions`.
        most_classes: Classes of a variable at most, the most frequent ones.
        on_variable: Called with the number of finished variables and of all.
    """
    deter, stoch = posterior.deter[rows], posterior.stoch[rows]  # (F, D), (F, Z)
    V, K = usage.usage.shape
    chosen = _classes_of(posterior, stoch, V, K)
    before = model.decode(deter, stoch)[image]
    classes, images, regions = [], [], []
    for variable in range(V):
        used = np.argsort(-usage.usage[variable], kind="stable")[:most_classes]
        tried = np.sort(used[~usage.dead[variable, used]])
        changed = np.stack([_with_code(posterior, stoch, variable, int(k), K) for k in tried], 1)
        states = np.broadcast_to(deter[:, None], (*changed.shape[:2], deter.shape[-1]))
        decoded = model.decode(states, changed)[image]
        difference = np.abs(to_unit(decoded) - to_unit(before)[:, None]).mean(-1)  # (F, k, H, W)
        weight = usage.usage[variable, tried]
        regions.append(np.average(difference, 1, weight).mean(0))
        classes.append(tried)
        images.append(decoded)
        on_variable(variable + 1, V)
    return Intervention(before, chosen, classes, images, np.stack(regions))


def _classes_of(posterior: Posterior, stoch: Floats, V: int, K: int) -> NDArray[np.int64]:
    if posterior.latent == "gaussian":
        raise UsageError(
            "The model has Gaussian latents: there are no codes to change.",
            "Interventions need categorical or binary latents.",
        )
    if posterior.latent == "binary":
        return np.asarray(stoch > 0.5, np.int64)
    return np.asarray(stoch.reshape(-1, V, K).argmax(-1), np.int64)


def _with_code(posterior: Posterior, stoch: Floats, variable: int, code: int, K: int) -> Floats:
    """Stochastic states with one variable set to a class."""
    changed = stoch.copy()
    if posterior.latent == "binary":
        changed[:, variable] = code
    else:
        changed[:, variable * K : (variable + 1) * K] = np.eye(K, dtype=np.float32)[code]
    return changed
