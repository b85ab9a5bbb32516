"""What changes in the picture when one code is changed and everything else stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wmtk.agent.outputs import Floats, Posterior
from wmtk.errors import UsageError
from wmtk.stats import Numbers
from wmtk.viz.metrics.codes import CodeUsage
from wmtk.viz.metrics.frames import to_unit

MOST_CLASSES = 12  # of a variable that are tried, the most frequent ones


class LatentDecoder(Protocol):
    """A model that can show states; what `wmtk.load` gives back is one."""

    def decode(self, deter: NDArray[Any], stoch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """What states (…, D) and (…, Z) look like."""


@dataclass(frozen=True)
class Intervention:
    """F frames with each of V variables set to each of its classes that are used."""

    before: NDArray[np.uint8]  # (F, H, W, C), as the model shows them
    chosen: NDArray[np.int64]  # (F, V), the classes that they have
    classes: list[NDArray[np.int64]]  # of each variable, which were tried
    pictures: list[NDArray[np.uint8]]  # of each variable: (F, classes, H, W, C)
    regions: Numbers  # (V, H, W), how much each pixel changes on average, of 1

    @property
    def effect(self) -> Numbers:
        """(V,), how much of the picture a variable changes, on average."""
        return np.asarray(self.regions.mean((1, 2)))


def intervene(
    model: LatentDecoder,
    seen: Posterior,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    image: str,
    usage: CodeUsage,
    *,
    most_classes: int = MOST_CLASSES,
    on_variable: Callable[[int, int], None] = lambda done, total: None,
) -> Intervention:
    """Change the codes of the frames at `rows` (windows, steps) of what a model saw.

    Classes are weighted by their use: what a class does that never occurs does not matter.
    """
    deter, stoch = seen.deter[rows], seen.stoch[rows]  # (F, D), (F, Z)
    V, K = usage.usage.shape
    chosen = _classes_of(seen, stoch, V, K)
    before = model.decode(deter, stoch)[image]
    classes, pictures, regions = [], [], []
    for variable in range(V):
        used = np.argsort(-usage.usage[variable], kind="stable")[:most_classes]
        tried = np.sort(used[~usage.dead[variable, used]])
        changed = np.stack([_with(seen, stoch, variable, int(k), K) for k in tried], 1)
        states = np.broadcast_to(deter[:, None], (*changed.shape[:2], deter.shape[-1]))
        shown = model.decode(states, changed)[image]
        difference = np.abs(to_unit(shown) - to_unit(before)[:, None]).mean(-1)  # (F, k, H, W)
        weight = usage.usage[variable, tried]
        regions.append(np.average(difference, 1, weight).mean(0))
        classes.append(tried)
        pictures.append(shown)
        on_variable(variable + 1, V)
    return Intervention(before, chosen, classes, pictures, np.stack(regions))


def _classes_of(seen: Posterior, stoch: Floats, V: int, K: int) -> NDArray[np.int64]:
    if seen.latent == "gaussian":
        raise UsageError(
            "The model has Gaussian latents: there are no codes to change.",
            "Look at one with categorical or binary latents.",
        )
    if seen.latent == "binary":
        return np.asarray(stoch > 0.5, np.int64)
    return np.asarray(stoch.reshape(-1, V, K).argmax(-1), np.int64)


def _with(seen: Posterior, stoch: Floats, variable: int, code: int, K: int) -> Floats:
    """The same states with one variable set to a class."""
    changed = stoch.copy()
    if seen.latent == "binary":
        changed[:, variable] = code
    else:
        changed[:, variable * K : (variable + 1) * K] = np.eye(K, dtype=np.float32)[code]
    return changed
