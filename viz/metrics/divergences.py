"""Divergence and entropy in nats, of distributions as arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from wmtk.stats import Numbers


def softmax(logits: ArrayLike) -> Numbers:
    """Probabilities (…, K) of logits (…, K)."""
    numbers = np.asarray(logits, np.float64)
    weights = np.exp(numbers - numbers.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def bernoulli(logits: ArrayLike) -> Numbers:
    """Logits (…) of binary variables as distributions over 0 and 1: (…, 2)."""
    numbers = np.asarray(logits, np.float64)
    return softmax(np.stack([np.zeros_like(numbers), numbers], -1))


def entropy(probabilities: ArrayLike) -> Numbers:
    """−Σ p·log p over (…, K): (…)."""
    p = np.asarray(probabilities, np.float64)
    return np.asarray(-(p * _log(p)).sum(-1))


def divergence(first: ArrayLike, second: ArrayLike) -> Numbers:
    """KL[first ‖ second] over (…, K): (…)."""
    p, q = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return np.asarray((p * (_log(p) - _log(q))).sum(-1))


def gaussian_entropy(std: ArrayLike) -> Numbers:
    """Of normal distributions, elementwise: (…)."""
    constant = 0.5 * math.log(2 * math.pi * math.e)
    return np.asarray(np.log(np.asarray(std, np.float64)) + constant)


def gaussian_divergence(
    mean: ArrayLike, std: ArrayLike, other_mean: ArrayLike, other_std: ArrayLike
) -> Numbers:
    """KL of normal distributions, elementwise: (…)."""
    m, s, n, r = (np.asarray(x, np.float64) for x in (mean, std, other_mean, other_std))
    return np.asarray(0.5 * ((s / r) ** 2 + ((m - n) / r) ** 2 - 1) + np.log(r / s))


def _log(p: Numbers) -> Numbers:
    """log p, finite where p is 0."""
    return np.asarray(np.log(np.maximum(p, np.finfo(np.float64).tiny)))
