"""What a model makes of recorded windows, as arrays: for metrics and pictures, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.reprs import brief_repr

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Posterior:
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
    # The rewards that came, (N, T), as the model learns them; None: as they are.
    true_reward: Floats | None = None

    __repr__ = brief_repr


@dataclass(frozen=True)
class OpenLoop:
    """What the model expects of H rows after a context that it saw, S times over."""

    obs: Mapping[str, NDArray[Any]]  # (N, S, H, …), images as bytes
    reward: Floats  # (N, S, H)
    discount: Floats  # (N, S, H)

    __repr__ = brief_repr


@dataclass(frozen=True)
class LatentState:
    """S states of a model, in a form of which thousands can be kept."""

    deter: Floats  # (S, D)
    codes: NDArray[Any]  # (S, V): the classes of discrete latents, or the numbers of Gaussian ones

    __repr__ = brief_repr


@dataclass(frozen=True)
class Prediction:
    """What a model shows of S states, and says of them."""

    obs: Mapping[str, NDArray[Any]]  # each (S, …), images as bytes
    reward: Floats  # (S,), expected on arriving there
    discount: Floats  # (S,)
    value: Floats | None  # (S,), None without a critic
    prior: Floats  # (S, V, K), before anything is drawn, as in `Posterior`
    entropy: Floats  # (S,) of the prior, nats

    __repr__ = brief_repr


@dataclass(frozen=True)
class PolicyRollout:
    """What a policy meets inside of the model: H rows after C that it saw, S times over."""

    obs: Mapping[str, NDArray[Any]]  # (N, S, H, …), images as bytes
    action: NDArray[Any]  # (N, S, H, …), which led to the row, as the environment takes it
    reward: Floats  # (N, S, H)
    discount: Floats  # (N, S, H)
    value: Floats  # (N, S, H), what the critic expects of the row and all after it

    __repr__ = brief_repr
