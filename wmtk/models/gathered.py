"""Perceptrons of one-hot states, without a product that is mostly zeros.

A categorical state of S variables with K classes each is S ones among S·K numbers: its product
with a weight is the sum of S rows of it. Nothing here records a graph; `with_gradient` lets a
loss reach the weights of a perceptron afterwards, in one pass over all steps.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmtk.models.latents import Categorical
from wmtk.models.layers import MLP, elu


class GatheredLinear:
    """A linear layer of features (deter, stoch), where stoch is given by the rows of its ones."""

    def __init__(self, layer: nn.Linear, deter_size: int) -> None:
        weight = layer.weight.detach()
        self.weight = weight[:, :deter_size].t()  # (D, U)
        self.table = weight[:, deter_size:].t().contiguous()  # (S·K, U)
        self.bias = layer.bias.detach()

    def __call__(self, deter: Tensor, rows: Tensor) -> Tensor:
        """deter (M, D), rows (M, S) → (M, U)."""
        gathered = F.embedding_bag(rows, self.table, mode="sum")
        return gathered.addmm_(deter, self.weight).add_(self.bias)


class GatheredMLP:
    """A perceptron of such features, which keeps what its layers gave."""

    def __init__(self, mlp: MLP, deter_size: int) -> None:
        self.mlp = mlp
        self.first = GatheredLinear(_linear(mlp.hidden[0]), deter_size)

    def __call__(self, deter: Tensor, rows: Tensor) -> list[Tensor]:
        """The outputs of each hidden layer and, last, of the perceptron itself."""
        x = elu(self.first(deter, rows))
        outputs = [x]
        for layer in self.mlp.hidden[1:]:
            x = elu(layer(x))
            outputs.append(x)
        outputs.append(self.mlp.out(x))
        return outputs


class _WithGradient(torch.autograd.Function):
    """The last of some outputs of a perceptron as a function of its weights and biases."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> Tensor:
        """tensors: inputs, `count` outputs, as many weights, as many biases."""
        ctx.count = count
        ctx.save_for_backward(*tensors[:count], *tensors[count + 1 : 2 * count + 1])
        return tensors[count].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        count = ctx.count
        inputs, weights = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        (grad,) = grads
        by_weight: list[Tensor] = []
        by_bias: list[Tensor] = []
        for i in reversed(range(count)):
            by_weight.append(grad.t() @ inputs[i])
            by_bias.append(grad.sum(0))
            if i:  # the derivative of ELU is 1 above 0 and its output plus 1 below
                grad = (grad @ weights[i]).mul_(inputs[i].clamp(max=0).add_(1))
        nothing = [None] * (count + 2)
        return (*nothing, *reversed(by_weight), *reversed(by_bias))


def with_gradient(mlp: MLP, inputs: Tensor, outputs: list[Tensor]) -> Tensor:
    """The last of `outputs`, each (M, …), differentiable in the weights; inputs (M, F)."""
    layers = [_linear(layer) for layer in (*mlp.hidden, mlp.out)]
    weights, biases = [x.weight for x in layers], [x.bias for x in layers]
    out: Tensor = _WithGradient.apply(len(layers), inputs, *outputs, *weights, *biases)  # type: ignore[no-untyped-call]
    return out


def one_hot_rows(latent: Categorical, stoch: Tensor) -> Tensor:
    """Where the ones of one-hot states (…, S·K) are: (…, S)."""
    classes = latent.logits(stoch).argmax(-1)
    return classes + _offsets(latent, stoch.device)


def draw_rows(latent: Categorical, stats: Tensor) -> Tensor:
    """Like `latent.sample`, but only where the ones are: (…, S)."""
    logits = latent.logits(stats)
    total = torch.softmax(logits, -1).cumsum(-1)
    uniform = torch.rand(*logits.shape[:-1], 1, device=stats.device)
    # The last sum may be a rounding error below 1: scale by it instead of trusting it.
    classes = torch.searchsorted(total, uniform * total[..., -1:])
    return classes.squeeze(-1).clamp_(max=latent.classes - 1) + _offsets(latent, stats.device)


def _offsets(latent: Categorical, device: torch.device) -> Tensor:
    return torch.arange(0, latent.size, latent.classes, device=device)


def _linear(layer: nn.Module) -> nn.Linear:
    assert isinstance(layer, nn.Linear), layer
    return layer
