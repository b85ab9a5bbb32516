"""Distributions of stochastic states and of actions.

A distribution turns its parameters (…, params_size), the outputs of a linear layer, into samples
(…, size): `sample` is differentiable in the parameters, `mode` is the most likely sample, without
gradient. `log_prob`, `entropy` and `kl` are in nats and summed over all variables: (…).

A `Latent` is the distribution of a stochastic state: categorical (DreamerV2), Gaussian (DreamerV1)
or binary. `noise` returns the random numbers of a sample and `draw` the sample that they determine;
`mean` is the expected sample. An `ActionDistribution` is categorical, binary or truncated normal;
actions are one-hot if they are discrete, else in [−1, 1]. `metrics` are scalars to log.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from wmtk.models.kernels import enabled
from wmtk.models.kernels.straight_through import straight_through

MIN_STD = 0.1
EDGE = 1e-6  # distance of samples of a truncated normal from −1 and 1
SQRT2 = math.sqrt(2)
LN_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def one_hot_sample(probs: Tensor, uniform: Tensor) -> Tensor:
    """Invert the cumulative distribution: probabilities (…, K), numbers in [0, 1) (…)."""
    total = torch.cumsum(probs, -1)
    # The last sum may be a rounding error away from 1.
    index = torch.searchsorted(total, uniform.unsqueeze(-1) * total[..., -1:])
    index.clamp_(max=probs.shape[-1] - 1)  # NaN sorts last; the loss reports it
    return torch.zeros_like(probs).scatter_(-1, index, 1.0)


def straight_through_one_hot(logits: Tensor, uniform: Tensor) -> Tensor:
    """One-hot samples (…, K) with the gradient of the probabilities (the paper's algorithm 1)."""
    fast = enabled(applies=True)
    probs = torch.softmax(logits.detach() if fast else logits, -1)
    sample = one_hot_sample(probs.detach(), uniform)
    if not torch.is_grad_enabled():
        return sample
    return straight_through(logits, probs, sample) if fast else sample + (probs - probs.detach())


class Categorical:
    """Independent one-hot variables, each with its number of classes; parameters are logits."""

    discrete = True

    def __init__(self, classes: Sequence[int]) -> None:
        self.classes = list(classes)
        self.variables = len(self.classes)
        self.size = self.params_size = sum(self.classes)

    def per_variable(self, x: Tensor) -> Tensor:
        """(…, S·K) → (…, S, K), for S variables of K classes each."""
        assert len(set(self.classes)) == 1, self.classes
        return x.reshape(*x.shape[:-1], self.variables, self.classes[0])

    def _split(self, x: Tensor) -> list[Tensor]:
        """(…, size) → [(…, S, K)], or one (…, 1, K) per variable if the numbers K differ."""
        if len(set(self.classes)) == 1:
            return [self.per_variable(x)]
        return [part.unsqueeze(-2) for part in x.split_with_sizes(self.classes, -1)]

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `_split`."""
        flat = [part.flatten(-2) for part in parts]
        return flat[0] if len(flat) == 1 else torch.cat(flat, -1)

    def _log_probs(self, logits: Tensor) -> Tensor:
        return self._join([torch.log_softmax(part, -1) for part in self._split(logits)])

    def mean(self, logits: Tensor) -> Tensor:
        return self._join([torch.softmax(part, -1) for part in self._split(logits)])

    def sample(self, logits: Tensor) -> Tensor:
        parts = self._split(logits)
        noise = self.noise(logits).split_with_sizes([part.shape[-2] for part in parts], -1)
        return self._join(list(map(straight_through_one_hot, parts, noise)))

    def noise(self, logits: Tensor) -> Tensor:
        return logits.new_empty((*logits.shape[:-1], self.variables)).uniform_()

    def draw(self, logits: Tensor, noise: Tensor) -> Tensor:
        probs = torch.softmax(self.per_variable(logits), -1)
        return one_hot_sample(probs, noise).reshape(logits.shape)

    def mode(self, logits: Tensor) -> Tensor:
        parts = [F.one_hot(x.argmax(-1), x.shape[-1]) for x in self._split(logits)]
        return self._join(parts).to(logits.dtype)

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        p, q = self._log_probs(first), self._log_probs(second)
        return (p.exp() * (p - q)).sum(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        log = self._log_probs(logits)
        return -(log.exp() * log).sum(-1)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        return (self._log_probs(logits) * action).sum(-1)

    def metrics(self, logits: Tensor) -> dict[str, Tensor]:
        probs = self._log_probs(logits).exp().flatten(0, -2).mean(0)
        several = self.variables > 1
        return {
            f"probability/{f'{i}/' if several else ''}{k}": p
            for i, part in enumerate(probs.split_with_sizes(self.classes))
            for k, p in enumerate(part)
        }


class Binary:
    """Independent Bernoulli variables with straight-through gradients; parameters are logits."""

    discrete = True

    def __init__(self, variables: int) -> None:
        self.variables = self.size = self.params_size = variables

    def mean(self, logits: Tensor) -> Tensor:
        return torch.sigmoid(logits)

    def sample(self, logits: Tensor) -> Tensor:
        probs = torch.sigmoid(logits)
        return self.draw(logits.detach(), self.noise(logits)) + probs - probs.detach()

    def noise(self, logits: Tensor) -> Tensor:
        return torch.empty_like(logits).uniform_()

    def draw(self, logits: Tensor, noise: Tensor) -> Tensor:
        return (noise < torch.sigmoid(logits)).to(logits.dtype)

    def mode(self, logits: Tensor) -> Tensor:
        return (logits.detach() > 0).to(logits.dtype)

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        p = torch.sigmoid(first)
        on = p * (F.logsigmoid(first) - F.logsigmoid(second))
        off = (1 - p) * (F.logsigmoid(-first) - F.logsigmoid(-second))
        return (on + off).sum(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        p = torch.sigmoid(logits)
        return -(p * F.logsigmoid(logits) + (1 - p) * F.logsigmoid(-logits)).sum(-1)

    def log_prob(self, logits: Tensor, action: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(logits, action, reduction="none").sum(-1)

    def metrics(self, logits: Tensor) -> dict[str, Tensor]:
        probs = torch.sigmoid(logits).flatten(0, -2).mean(0)
        return {f"probability/{i}": p for i, p in enumerate(probs)}


class Gaussian:
    """A diagonal Gaussian, std = 2·sigmoid(x/2) + 0.1, as in DreamerV1 and the ablation."""

    def __init__(self, variables: int) -> None:
        self.variables = self.size = variables
        self.params_size = 2 * variables

    def moments(self, dist_params: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation."""
        mean, raw = dist_params.chunk(2, -1)
        return mean, 2 * torch.sigmoid(raw / 2) + MIN_STD

    def mean(self, dist_params: Tensor) -> Tensor:
        return dist_params.chunk(2, -1)[0]

    def sample(self, dist_params: Tensor) -> Tensor:
        return self.draw(dist_params, self.noise(dist_params))

    def noise(self, dist_params: Tensor) -> Tensor:
        return dist_params.new_empty((*dist_params.shape[:-1], self.size)).normal_()

    def draw(self, dist_params: Tensor, noise: Tensor) -> Tensor:
        mean, std = self.moments(dist_params)
        return mean + std * noise

    def mode(self, dist_params: Tensor) -> Tensor:
        return self.mean(dist_params).detach()

    def kl(self, first: Tensor, second: Tensor) -> Tensor:
        (m1, s1), (m2, s2) = self.moments(first), self.moments(second)
        squares = (s1 / s2).square() + ((m2 - m1) / s2).square()
        return (0.5 * (squares - 1) + s2.log() - s1.log()).sum(-1)

    def entropy(self, dist_params: Tensor) -> Tensor:
        _, std = self.moments(dist_params)
        return (std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)


class TruncatedNormal:
    """Independent normals truncated to [−1, 1], mean = tanh(x), std = 2·sigmoid(s/2) + 0.1."""

    discrete = False

    def __init__(self, size: int) -> None:
        self.size, self.params_size = size, 2 * size

    def moments(self, dist_params: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the normal that is truncated."""
        mean, raw = dist_params.chunk(2, -1)
        return torch.tanh(mean), 2 * torch.sigmoid(raw / 2) + MIN_STD

    def sample(self, dist_params: Tensor) -> Tensor:
        mean, std = self.moments(dist_params)
        return truncated_sample(mean, std, torch.rand_like(mean))

    def mode(self, dist_params: Tensor) -> Tensor:
        return torch.tanh(dist_params.detach().chunk(2, -1)[0])

    def log_prob(self, dist_params: Tensor, action: Tensor) -> Tensor:
        mean, std = self.moments(dist_params)
        mass = _mass((-1 - mean) / std, (1 - mean) / std)
        squares = ((action - mean) / std).square()
        return -(0.5 * squares + (std * mass).log() + LN_SQRT_2PI).sum(-1)

    def entropy(self, dist_params: Tensor) -> Tensor:
        mean, std = self.moments(dist_params)
        low, high = (-1 - mean) / std, (1 - mean) / std
        mass = _mass(low, high)
        ends = (low * _density(low) - high * _density(high)) / (2 * mass)
        return ((std * mass).log() + LN_SQRT_2PI + 0.5 + ends).sum(-1)

    def metrics(self, dist_params: Tensor) -> dict[str, Tensor]:
        mean, std = self.moments(dist_params)
        return {"size": mean.abs().mean(), "std": std.mean()}


def truncated_sample(mean: Tensor, std: Tensor, uniform: Tensor) -> Tensor:
    """Invert the cumulative distribution: x = mean + std·ξ with Φ(ξ) = (1−u)·Φ(α) + u·Φ(β).

    The gradient is that of this equation's solution. Autograd through erfinv overflows at the ends.
    """
    with torch.no_grad():
        low, high = (-1 - mean) / std, (1 - mean) / std  # α, β
        # erf(ξ/√2) = 2Φ(ξ) − 1, clamped where its inverse is finite
        level = torch.lerp(torch.erf(low / SQRT2), torch.erf(high / SQRT2), uniform)
        limit = 1 - 2 * torch.finfo(level.dtype).eps
        xi = torch.erfinv(level.clamp(-limit, limit)) * SQRT2
        xi = torch.maximum(torch.minimum(xi, high), low)
        sample = (mean + std * xi).clamp(-1 + EDGE, 1 - EDGE)
        # φ(α)/φ(ξ) and φ(β)/φ(ξ), weighted by the sample's share of either end
        at_low = (1 - uniform) * torch.exp((xi.square() - low.square()) / 2)
        at_high = uniform * torch.exp((xi.square() - high.square()) / 2)
        by_mean = 1 - at_low - at_high
        by_std = xi - low * at_low - high * at_high
    return sample + by_mean * (mean - mean.detach()) + by_std * (std - std.detach())


def _mass(low: Tensor, high: Tensor) -> Tensor:
    """Φ(high) − Φ(low): at least a third, since |mean| < 1 and std ≤ 2.1."""
    return 0.5 * (torch.erf(high / SQRT2) - torch.erf(low / SQRT2))


def _density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x.square() - LN_SQRT_2PI)


Latent = Categorical | Gaussian | Binary
ActionDistribution = Categorical | Binary | TruncatedNormal
