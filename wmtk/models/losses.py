"""The terms of the world-model loss, as pure functions of tensors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmtk.models.conv import to_float
from wmtk.models.distributions import Categorical, Latent
from wmtk.models.kernels import enabled
from wmtk.models.kernels.chunks import sum_applies, sum_chunks
from wmtk.models.kernels.scaled_gradient import scaled_gradient


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of values (B, T) over the rows that `mask` selects."""
    assert values.shape == mask.shape, (values.shape, mask.shape)
    return (values * mean_weights(mask)).sum()


def mean_weights(mask: Tensor) -> Tensor:
    """The weight of each row (B, T) in a mean over the rows that `mask` selects."""
    weights = mask.to(torch.float32)
    return weights / weights.sum().clamp(min=1)


def balanced_kl(
    latent: Latent, post: Tensor, prior: Tensor, mask: Tensor, balance: float | None
) -> Tensor:
    """α·KL[sg(post) ‖ prior] + (1−α)·KL[post ‖ sg(prior)], averaged (the paper's algorithm 2).

    `post` and `prior` are parameters of the latent's distribution (B, T, …). A balance of None is
    the plain KL, whose gradient reaches both sides in full.
    """
    if balance is None:
        return masked_mean(latent.kl(post, prior), mask)
    if enabled(applies=True):  # both terms have the same value: only their gradients differ
        post, prior = scaled_gradient(post, 1 - balance), scaled_gradient(prior, balance)
        return masked_mean(latent.kl(post, prior), mask)
    to_prior = masked_mean(latent.kl(post.detach(), prior), mask)
    to_post = masked_mean(latent.kl(post, prior.detach()), mask)
    return balance * to_prior + (1 - balance) * to_post


def gaussian_nll(mean: Tensor, target: Tensor, event_dims: int) -> Tensor:
    """−ln N(target; mean, 1), summed over the last `event_dims` dimensions.

    It includes the constant ½·ln 2π per number.
    """
    constant = 0.5 * math.log(2 * math.pi)
    errors = (mean - target).square()
    count = math.prod(errors.shape[errors.ndim - event_dims :])
    summed = errors.flatten(errors.ndim - event_dims).sum(-1) if event_dims else errors
    return 0.5 * summed + constant * count


def image_nll(decoder: nn.Module, features: Tensor, image: Tensor, weights: Tensor) -> Tensor:
    """Σ weight · −ln p(image | features): features (N, F), images (N, H, W, C), weights (N,)."""

    def term(features: Tensor, rows: slice) -> Tensor:
        nll = gaussian_nll(decoder(features), to_float(image[rows]), 3)
        return (nll * weights[rows]).sum()

    if enabled(applies=sum_applies(features)):
        trained = [weight for weight in decoder.parameters() if weight.requires_grad]
        return sum_chunks(term, features, trained)
    return term(features, slice(None))


def discount_nll(logits: Tensor, terminal: Tensor, discount: float) -> Tensor:
    """−ln Bernoulli with the soft target γ·(1 − terminal): (…)."""
    target = discount * (1 - terminal.to(logits.dtype))
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none")


def code_perplexity(latent: Categorical, logits: Tensor, mask: Tensor) -> Tensor:
    """exp of the entropy of each variable's marginal over the batch, averaged: 1 … classes."""
    probs = torch.softmax(latent.per_variable(logits), -1)  # (B, T, S, K)
    marginal = probs[mask].mean(0)  # (S, K)
    entropy = -(marginal * marginal.clamp(min=1e-12).log()).sum(-1)
    return entropy.exp().mean()
