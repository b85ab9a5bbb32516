"""The terms of the world-model loss, as pure functions of tensors."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from wmtk.models.distributions import Latent


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of values (B, T) over the rows that are no padding."""
    assert values.shape == mask.shape, (values.shape, mask.shape)
    return (values * mean_weights(mask)).sum()


def mean_weights(mask: Tensor) -> Tensor:
    """What each row counts in a mean over those that are no padding."""
    weights = mask.to(torch.float32)
    return weights / weights.sum().clamp(min=1)


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.scale, None


def scaled_gradient(x: Tensor, scale: float) -> Tensor:
    """The same numbers; on the way back the gradient is multiplied."""
    y: Tensor = _ScaledGradient.apply(x, scale)  # type: ignore[no-untyped-call]
    return y


def balanced_kl(
    latent: Latent, post: Tensor, prior: Tensor, mask: Tensor, balance: float | None
) -> Tensor:
    """α·KL[sg(post) ‖ prior] + (1−α)·KL[post ‖ sg(prior)] for stats (B, T, …), averaged.

    Both terms are the same number, so that it is computed once and only the gradients differ. A
    balance of None is the plain KL, whose gradient reaches both sides in full.
    """
    if balance is not None:
        post, prior = scaled_gradient(post, 1 - balance), scaled_gradient(prior, balance)
    return masked_mean(latent.kl(post, prior), mask)


def gaussian_nll(mean: Tensor, target: Tensor, event_dims: int) -> Tensor:
    """−ln N(target; mean, 1), summed over the last `event_dims` dimensions.

    It contains the constant ½·ln 2π per number, so that it is a likelihood; `squared_error` is
    the part that can be learned.
    """
    constant = 0.5 * math.log(2 * math.pi)
    errors = (mean - target).square()
    count = math.prod(errors.shape[errors.ndim - event_dims :])
    summed = errors.flatten(errors.ndim - event_dims).sum(-1) if event_dims else errors
    return 0.5 * summed + constant * count


def squared_error(mean: Tensor, target: Tensor, event_dims: int) -> Tensor:
    """The mean squared error over the last `event_dims` dimensions, free of any constant."""
    errors = (mean - target).square()
    return errors.flatten(errors.ndim - event_dims).mean(-1) if event_dims else errors


def discount_nll(logits: Tensor, terminal: Tensor, discount: float) -> Tensor:
    """−ln Bernoulli with the soft target γ·(1 − terminal), per element."""
    target = discount * (1 - terminal.to(logits.dtype))
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")


def code_perplexity(stats: Tensor, variables: int, classes: int, mask: Tensor) -> Tensor:
    """exp of the entropy of each variable's marginal over the batch, averaged: 1 … classes."""
    probs = torch.softmax(stats.reshape(*stats.shape[:-1], variables, classes), -1)  # (B, T, S, K)
    marginal = probs[mask].mean(0)  # (S, K)
    entropy = -(marginal * marginal.clamp(min=1e-12).log()).sum(-1)
    return entropy.exp().mean()
