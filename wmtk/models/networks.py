"""Building blocks: initialization, multi-layer perceptrons, the layer-norm GRU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from wmtk.models.kernels.elu import elu
from wmtk.models.kernels.matmul import Linear


def initialize(module: nn.Module) -> None:
    """Glorot-uniform weights and zero biases, the default of the reference's framework."""
    for child in module.modules():
        if isinstance(child, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(child.weight)
            if child.bias is not None:
                nn.init.zeros_(child.bias)


def initialize_jointly(*parts: nn.Linear) -> None:
    """Glorot-uniform weights of layers whose outputs are added, as one layer of all inputs."""
    inputs, outputs = sum(part.in_features for part in parts), parts[0].out_features
    bound = (6 / (inputs + outputs)) ** 0.5
    for part in parts:
        nn.init.uniform_(part.weight, -bound, bound)


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Treat the weights of a module as constants within a block: they get no gradient."""
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    for weight in trained:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in trained:
            weight.requires_grad_(True)


class MLP(nn.Module):
    """`layers` hidden layers of `units`, then a linear layer to `outputs`."""

    def __init__(self, inputs: int, outputs: int, layers: int, units: int) -> None:
        super().__init__()
        self.size = outputs
        sizes = [inputs] + [units] * layers
        self.hidden = nn.ModuleList(Linear(n, m) for n, m in pairwise(sizes))
        self.out = Linear(sizes[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = elu(layer(x))
        out: Tensor = self.out(x)
        return out


class GRUCell(nn.Module):
    """A GRU with one layer norm for its three parts and an update gate that is initially closed.

    linear([x, h]) + bias → LayerNorm(3D) → (reset, candidate, update);
    candidate = tanh(reset · candidate); update = sigmoid(update − 1).
    """

    update_bias = -1.0
    epsilon = 1e-3  # of the layer norm

    def __init__(self, inputs: int, size: int, *, layer_norm: bool) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.linear = Linear(inputs + size, 3 * size)
        self.norm = nn.LayerNorm(3 * size, eps=self.epsilon) if layer_norm else nn.Identity()

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        """x (…, inputs), h (…, size) → the next h."""
        parts = self.norm(self.linear(torch.cat([x, h], -1)))
        reset, candidate, update = parts.chunk(3, -1)
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        return torch.lerp(h, candidate, torch.sigmoid(update + self.update_bias))
