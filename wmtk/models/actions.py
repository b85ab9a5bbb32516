"""What an actor may do: factored categorical, binary, or truncated normal actions.

A distribution turns the outputs of the actor, its *stats* (…, stats_size), into actions (…, size)
as the model sees them, one-hot where they are discrete and in [−1, 1] where they are numbers. It
knows their log-probability and entropy, in nats and summed over all parts of an action.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from wmtk.errors import ConfigError
from wmtk.models import distributions
from wmtk.models.distributions import straight_through_one_hot
from wmtk.spaces import ArraySpec

MIN_STD = 0.1
EDGE = 1e-6  # how far samples of a truncated normal stay away from −1 and 1
_SQRT2 = math.sqrt(2)
_LN_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Actions(Protocol):
    stats_size: int
    size: int
    discrete: bool  # what Reinforce is for; dynamics backpropagation is for the others

    def sample(self, stats: Tensor) -> Tensor:
        """A random action, (…, size), differentiable in `stats`."""

    def mode(self, stats: Tensor) -> Tensor:
        """The most likely action, (…, size), without gradient."""

    def log_prob(self, stats: Tensor, action: Tensor) -> Tensor:
        """ln p(action): (…)."""

    def entropy(self, stats: Tensor) -> Tensor:
        """Entropy: (…)."""

    def summary(self, stats: Tensor) -> dict[str, Tensor]:
        """What to log of a batch: the mean probabilities, or the size and spread of numbers."""


def actions_of(spec: ArraySpec) -> Actions:
    """The distribution for an action space."""
    if spec.kind == "discrete":
        return Categoricals([spec.n])
    if spec.kind == "multi_discrete":
        return Categoricals((spec.bound("high") - spec.bound("low") + 1).ravel().tolist())
    if spec.kind == "multi_binary":
        return Binary(spec.numbers)
    if not spec.dtype.startswith("float"):
        raise ConfigError(
            f"No actor can act in {spec}: a box of whole numbers.",
            "Make it a Discrete or MultiDiscrete space in a wrapper.",
        )
    return TruncatedNormal(spec.numbers)


class Categoricals:
    """A choice, or several at once: independent categoricals of `sizes` classes, one-hot."""

    discrete = True

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = list(sizes)
        self.size = self.stats_size = sum(self.sizes)

    def _parts(self, stats: Tensor) -> Sequence[Tensor]:
        """(…, size) → one (…, classes) for each choice."""
        return stats.split_with_sizes(self.sizes, -1)

    def _logs(self, stats: Tensor) -> Tensor:
        """The log-probabilities of all classes of all choices, (…, size)."""
        return _joined([torch.log_softmax(part, -1) for part in self._parts(stats)])

    def sample(self, stats: Tensor) -> Tensor:
        uniform = torch.rand(*stats.shape[:-1], len(self.sizes), device=stats.device)
        parts = self._parts(stats)
        return _joined([straight_through_one_hot(x, uniform[..., i]) for i, x in enumerate(parts)])

    def mode(self, stats: Tensor) -> Tensor:
        parts = self._parts(stats.detach())
        hot = [F.one_hot(x.argmax(-1), n) for x, n in zip(parts, self.sizes, strict=True)]
        return _joined(hot).to(stats.dtype)

    def log_prob(self, stats: Tensor, action: Tensor) -> Tensor:
        return (self._logs(stats) * action).sum(-1)

    def entropy(self, stats: Tensor) -> Tensor:
        logs = self._logs(stats)
        return -(logs.exp() * logs).sum(-1)

    def summary(self, stats: Tensor) -> dict[str, Tensor]:
        means = self._parts(self._logs(stats).exp().flatten(0, -2).mean(0))
        prefixes = [""] if len(means) == 1 else [f"{i}/" for i in range(len(means))]
        return {
            f"probability/{prefix}{k}": p
            for prefix, part in zip(prefixes, means, strict=True)
            for k, p in enumerate(part)
        }


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), -1)


class Binary(distributions.Binary):
    """Switches that are on (1) or off (0), each on its own."""

    discrete = True

    def log_prob(self, stats: Tensor, action: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(stats, action, reduction="none").sum(-1)

    def summary(self, stats: Tensor) -> dict[str, Tensor]:
        on = torch.sigmoid(stats).flatten(0, -2).mean(0)
        return {f"probability/{i}": p for i, p in enumerate(on)}


class _TruncatedSample(torch.autograd.Function):
    """Draws from a normal cut off at ±1, by the inverse of its cumulative distribution.

    With α, β, ξ = (−1, 1, x − mean) / std the sample solves Φ(ξ) = (1−u)·Φ(α) + u·Φ(β) for a
    uniform u. The gradient is that of the solution, not of the steps towards it: the derivative
    of the inverse error function overflows at the ends, where the sample's own is harmless.
    """

    @staticmethod
    def forward(ctx: Any, mean: Tensor, std: Tensor, uniform: Tensor) -> Tensor:
        low, high = (-1 - mean) / std, (1 - mean) / std
        # erf(ξ/√2) = 2Φ(ξ) − 1, kept off ±1 by a few rounding errors, where its inverse is finite.
        level = torch.lerp(torch.erf(low / _SQRT2), torch.erf(high / _SQRT2), uniform)
        limit = 1 - 2 * torch.finfo(level.dtype).eps
        at = torch.erfinv(level.clamp(-limit, limit)) * _SQRT2
        at = torch.maximum(torch.minimum(at, high), low)
        ctx.save_for_backward(low, high, at, uniform)
        return (mean + std * at).clamp(-1 + EDGE, 1 - EDGE)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        low, high, at, uniform = ctx.saved_tensors
        # φ(α)/φ(ξ) and φ(β)/φ(ξ), weighted by how much the sample hangs on either end.
        at_low = (1 - uniform) * torch.exp((at.square() - low.square()) / 2)
        at_high = uniform * torch.exp((at.square() - high.square()) / 2)
        by_mean = 1 - at_low - at_high
        by_std = at - low * at_low - high * at_high
        return grads[0] * by_mean, grads[0] * by_std, None


class TruncatedNormal:
    """Numbers in [−1, 1]: a normal that is cut off there, each on its own.

    mean = tanh(x), std = 2·sigmoid(s/2) + 0.1 of the stats (x, s).
    """

    discrete = False

    def __init__(self, size: int) -> None:
        self.size, self.stats_size = size, 2 * size

    def moments(self, stats: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the standard deviation before cutting off."""
        mean, raw = stats.chunk(2, -1)
        return torch.tanh(mean), 2 * torch.sigmoid(raw / 2) + MIN_STD

    def sample(self, stats: Tensor) -> Tensor:
        mean, std = self.moments(stats)
        drawn: Tensor = _TruncatedSample.apply(mean, std, torch.rand_like(mean))  # type: ignore[no-untyped-call]
        return drawn

    def mode(self, stats: Tensor) -> Tensor:
        return torch.tanh(stats.detach().chunk(2, -1)[0])

    def log_prob(self, stats: Tensor, action: Tensor) -> Tensor:
        mean, std = self.moments(stats)
        low, high = (-1 - mean) / std, (1 - mean) / std
        squares = ((action - mean) / std).square()
        return -(0.5 * squares + (std * _mass(low, high)).log() + _LN_SQRT_2PI).sum(-1)

    def entropy(self, stats: Tensor) -> Tensor:
        mean, std = self.moments(stats)
        low, high = (-1 - mean) / std, (1 - mean) / std
        mass = _mass(low, high)
        ends = (low * _density(low) - high * _density(high)) / (2 * mass)
        return ((std * mass).log() + _LN_SQRT_2PI + 0.5 + ends).sum(-1)

    def summary(self, stats: Tensor) -> dict[str, Tensor]:
        mean, std = self.moments(stats)
        return {"size": mean.abs().mean(), "std": std.mean()}


def _mass(low: Tensor, high: Tensor) -> Tensor:
    """Φ(high) − Φ(low): at least a third, since the mean is inside and the std at most 2.1."""
    return 0.5 * (torch.erf(high / _SQRT2) - torch.erf(low / _SQRT2))


def _density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x.square() - _LN_SQRT_2PI)
