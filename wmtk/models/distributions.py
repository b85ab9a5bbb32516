"""The stochastic state: categorical (DreamerV2), Gaussian (DreamerV1) or binary.

A latent turns the outputs of a linear layer, its *stats* (…, stats_size), into samples
(…, size) that gradients pass through, and knows its divergence and entropy.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Latent(Protocol):
    stats_size: int
    size: int

    def sample(self, stats: Tensor) -> Tensor:
        """A random state, (…, size), differentiable in `stats`."""

    def noise(self, stats: Tensor) -> Tensor:
        """The random numbers that a sample from such stats takes."""

    def draw(self, stats: Tensor, noise: Tensor) -> Tensor:
        """The sample that `noise` leads to, without gradient: `sample` draws just so."""

    def slope(self, stats: Tensor, sample: Tensor) -> Tensor:
        """How a sample changes with the stats it was drawn from, as `pull_back` needs it."""

    def pull_back(self, slope: Tensor, grad: Tensor) -> Tensor:
        """The gradient of the stats, given that of a sample."""

    def mode(self, stats: Tensor) -> Tensor:
        """The most likely state, (…, size), without gradient."""

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        """KL[first ‖ second] in nats, summed over the state: (…)."""

    def entropy(self, stats: Tensor) -> Tensor:
        """Entropy in nats, summed over the state: (…)."""


class _StraightThroughOneHot(torch.autograd.Function):
    """One-hot samples whose gradient is that of the probabilities.

    The paper's `sample + probs − stop_gradient(probs)`, in one operation: softmax, a draw by the
    inverse of the cumulative distribution (one uniform number per variable) and one-hot.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, uniform: Tensor) -> Tensor:
        probs = torch.softmax(logits, -1)
        ctx.save_for_backward(probs)
        return _one_hot(probs, uniform)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (probs,) = ctx.saved_tensors
        return _softmax_backward(probs, grads[0]), None


def _one_hot(probs: Tensor, uniform: Tensor) -> Tensor:
    total = torch.cumsum(probs, -1)
    # Against the last sum, which may be a rounding error away from 1.
    index = torch.searchsorted(total, uniform.unsqueeze(-1) * total[..., -1:])
    index.clamp_(max=probs.shape[-1] - 1)  # NaN is found nowhere; the loss shall tell of it
    return torch.zeros_like(probs).scatter_(-1, index, 1.0)


def _softmax_backward(probs: Tensor, grad: Tensor) -> Tensor:
    found: Tensor = torch.ops.aten._softmax_backward_data(grad, probs, -1, probs.dtype)
    return found


def straight_through_one_hot(logits: Tensor, uniform: Tensor) -> Tensor:
    """Draw one-hot samples (…, K) from logits (…, K) with uniform numbers (…) in [0, 1)."""
    if not torch.is_grad_enabled():
        return _one_hot(torch.softmax(logits, -1), uniform)
    sample: Tensor = _StraightThroughOneHot.apply(logits, uniform)  # type: ignore[no-untyped-call]
    return sample


class Categorical:
    """`variables` categorical variables of `classes` classes each."""

    def __init__(self, variables: int, classes: int) -> None:
        self.variables, self.classes = variables, classes
        self.size = self.stats_size = variables * classes

    def logits(self, stats: Tensor) -> Tensor:
        """(…, S·K) → (…, S, K)."""
        return stats.reshape(*stats.shape[:-1], self.variables, self.classes)

    def sample(self, stats: Tensor) -> Tensor:
        return straight_through_one_hot(self.logits(stats), self.noise(stats)).flatten(-2)

    def noise(self, stats: Tensor) -> Tensor:
        return stats.new_empty((*stats.shape[:-1], self.variables)).uniform_()

    def draw(self, stats: Tensor, noise: Tensor) -> Tensor:
        return _one_hot(torch.softmax(self.logits(stats), -1), noise).reshape(stats.shape)

    def slope(self, stats: Tensor, sample: Tensor) -> Tensor:
        return torch.softmax(self.logits(stats), -1)

    def pull_back(self, slope: Tensor, grad: Tensor) -> Tensor:
        return _softmax_backward(slope, self.logits(grad)).reshape(grad.shape)

    def mode(self, stats: Tensor) -> Tensor:
        index = self.logits(stats).argmax(-1)
        return F.one_hot(index, self.classes).to(stats.dtype).flatten(-2)

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        p = torch.log_softmax(self.logits(first), -1)
        q = torch.log_softmax(self.logits(second), -1)
        return (p.exp() * (p - q)).sum((-1, -2))

    def entropy(self, stats: Tensor) -> Tensor:
        log = torch.log_softmax(self.logits(stats), -1)
        return -(log.exp() * log).sum((-1, -2))


class Gaussian:
    """A diagonal Gaussian; std = 2·sigmoid(x/2) + 0.1, as in DreamerV1 and the ablation."""

    min_std = 0.1

    def __init__(self, variables: int) -> None:
        self.size, self.stats_size = variables, 2 * variables

    def _moments(self, stats: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = stats.chunk(2, -1)
        return mean, 2 * torch.sigmoid(raw / 2) + self.min_std

    def sample(self, stats: Tensor) -> Tensor:
        mean, std = self._moments(stats)
        return mean + std * self.noise(stats)

    def noise(self, stats: Tensor) -> Tensor:
        return stats.new_empty((*stats.shape[:-1], self.size)).normal_()

    def draw(self, stats: Tensor, noise: Tensor) -> Tensor:
        mean, std = self._moments(stats)
        return mean + std * noise

    def slope(self, stats: Tensor, sample: Tensor) -> Tensor:
        mean, std = self._moments(stats)
        noise = (sample - mean) / std
        # std = 2·sigmoid(raw/2) + 0.1, whose derivative is sigmoid·(1 − sigmoid)
        share = (std - self.min_std) / 2
        return noise * share * (1 - share)

    def pull_back(self, slope: Tensor, grad: Tensor) -> Tensor:
        return torch.cat([grad, grad * slope], -1)

    def mode(self, stats: Tensor) -> Tensor:
        return self._moments(stats)[0].detach()

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        (m1, s1), (m2, s2) = self._moments(first), self._moments(second)
        squares = (s1 / s2).square() + ((m2 - m1) / s2).square()
        return (0.5 * (squares - 1) + s2.log() - s1.log()).sum(-1)

    def entropy(self, stats: Tensor) -> Tensor:
        _, std = self._moments(stats)
        return (std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)


class Binary:
    """Independent Bernoulli variables with straight-through gradients (the paper's appendix)."""

    def __init__(self, variables: int) -> None:
        self.size = self.stats_size = variables

    def sample(self, stats: Tensor) -> Tensor:
        probs = torch.sigmoid(stats)
        return self.draw(stats.detach(), self.noise(stats)) + probs - probs.detach()

    def noise(self, stats: Tensor) -> Tensor:
        return torch.empty_like(stats).uniform_()

    def draw(self, stats: Tensor, noise: Tensor) -> Tensor:
        return (noise < torch.sigmoid(stats)).to(stats.dtype)

    def slope(self, stats: Tensor, sample: Tensor) -> Tensor:
        probs = torch.sigmoid(stats)
        return probs * (1 - probs)

    def pull_back(self, slope: Tensor, grad: Tensor) -> Tensor:
        return grad * slope

    def mode(self, stats: Tensor) -> Tensor:
        return (stats.detach() > 0).to(stats.dtype)

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        p = torch.sigmoid(first)
        on = p * (F.logsigmoid(first) - F.logsigmoid(second))
        off = (1 - p) * (F.logsigmoid(-first) - F.logsigmoid(-second))
        return (on + off).sum(-1)

    def entropy(self, stats: Tensor) -> Tensor:
        p = torch.sigmoid(stats)
        return -(p * F.logsigmoid(stats) + (1 - p) * F.logsigmoid(-stats)).sum(-1)
