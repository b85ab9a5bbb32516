"""Outputs of a model as NumPy arrays, for metrics and plots without torch.

N windows, T rows, S samples or states, H imagined steps, V latent variables of K classes.
"""

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
    """Posterior states and predictions of the model at each row of N windows of T rows."""

    obs: Mapping[str, NDArray[Any]]  # reconstructions (N, T, …), images as bytes
    reward: Floats  # (N, T), predicted
    discount: Floats  # (N, T), predicted
    deter: Floats  # (N, T, D)
    stoch: Floats  # (N, T, Z)
    latent: str  # "categorical", "binary" or "gaussian"
    # Probabilities of the K classes (two of binary variables), or mean and standard deviation.
    posterior: Floats  # (N, T, V, K)
    prior: Floats  # (N, T, V, K), before observing the row
    # Recorded rewards (N, T) in the unit of `reward`; None if that is the unit of the task.
    true_reward: Floats | None = None

    __repr__ = brief_repr


@dataclass(frozen=True)
class OpenLoop:
    """Open-loop predictions of H rows after an observed context, S samples each."""

    obs: Mapping[str, NDArray[Any]]  # (N, S, H, …), images as bytes
    reward: Floats  # (N, S, H)
    discount: Floats  # (N, S, H)

    __repr__ = brief_repr


@dataclass(frozen=True)
class LatentState:
    """S latent states in compact form."""

    deter: Floats  # (S, D)
    codes: NDArray[Any]  # (S, V): classes of discrete variables, values of Gaussian ones

    __repr__ = brief_repr


@dataclass(frozen=True)
class Prediction:
    """Predictions of the heads, and of the prior, for S states."""

    obs: Mapping[str, NDArray[Any]]  # each (S, …), images as bytes
    reward: Floats  # (S,), of the step that led to the state
    discount: Floats  # (S,)
    value: Floats | None  # (S,), None without a critic
    prior: Floats  # (S, V, K), as in `Posterior`
    entropy: Floats  # (S,) of the prior, nats

    __repr__ = brief_repr


@dataclass(frozen=True)
class PolicyRollout:
    """Imagined rollouts of H steps of a policy after an observed context, S samples each."""

    obs: Mapping[str, NDArray[Any]]  # (N, S, H, …), images as bytes
    action: NDArray[Any]  # (N, S, H, …), which led to the row, in the environment's format
    reward: Floats  # (N, S, H)
    discount: Floats  # (N, S, H)
    value: Floats  # (N, S, H), of the critic

    __repr__ = brief_repr
