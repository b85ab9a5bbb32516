"""What a model makes of recorded windows, as arrays: for metrics and pictures, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """The model after seeing each row of N windows of T rows."""

    obs: Mapping[str, NDArray[Any]]  # reconstructions (N, T, …), images as bytes
    reward: Floats  # (N, T), expected
    discount: Floats  # (N, T), expected
    deter: Floats  # (N, T, D)
    stoch: Floats  # (N, T, Z)
    latent: str  # "categorical", "binary" or "gaussian"
    # Of V variables: the probabilities of K classes (two, if they are binary), or mean and std.
    posterior: Floats  # (N, T, V, K)
    prior: Floats  # (N, T, V, K), before seeing the row


@dataclass(frozen=True)
class Imagined:
    """What the model expects of H rows after a context that it saw, S times over."""

    obs: Mapping[str, NDArray[Any]]  # (N, S, H, …), images as bytes
    reward: Floats  # (N, S, H)
    discount: Floats  # (N, S, H)
