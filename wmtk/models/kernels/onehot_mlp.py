"""Perceptrons of one-hot states by gathering rows of weights.

A categorical state of S variables with K classes each has S ones among S·K numbers: its product
with a weight is the sum of S rows of the weight. The forward pass records no graph; `with_gradient`
makes the outputs differentiable in the weights afterwards, in one pass over all steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmtk.models.distributions import Categorical
from wmtk.models.kernels.elu import elu_, elu_gradient
from wmtk.models.kernels.matmul import outer, product, product_plus
from wmtk.models.networks import MLP


class GatheredLinear:
    """Linear layers of one-hot states, which are represented by the positions of their ones.

    Layers with the same input are computed together.
    """

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor], classes: int) -> None:
        """Weights (U, S·K) and biases (U) of each layer, for variables of K classes."""
        self.sizes = [len(bias) for bias in biases]
        self.table = torch.cat([weight.detach().t() for weight in weights], 1)  # (S·K, ΣU)
        # Each sum contains exactly one class of the first variable, and so the biases once.
        self.table[:classes] += torch.cat([bias.detach() for bias in biases])

    def __call__(self, rows: Tensor) -> Sequence[Tensor]:
        """rows (M, S) → one (M, U) for each layer."""
        gathered = F.embedding_bag(rows, self.table, mode="sum")
        return gathered.split_with_sizes(self.sizes, -1)


class GatheredMLP:
    """A perceptron of features (deter, one-hot stoch) that stores the outputs of its layers."""

    def __init__(self, mlp: MLP, deter_size: int) -> None:
        first, *others = (_linear(layer) for layer in (*mlp.hidden, mlp.out))
        self.of_deter = first.weight.detach()[:, :deter_size].t()  # (D, U)
        self.of_stoch, self.bias = first.weight[:, deter_size:], first.bias
        self._others = [(layer.bias.detach(), layer.weight.detach().t()) for layer in others]

    def buffers(self, *rows: int) -> list[Tensor]:
        """Empty tensors (*rows, …) for the outputs of each layer."""
        widths = [len(self.bias), *(len(bias) for bias, _ in self._others)]
        return [self.bias.new_empty(*rows, width) for width in widths]

    def __call__(self, deter: Tensor, gathered: Tensor, outputs: Sequence[Tensor]) -> Tensor:
        """Fill `outputs`, each (M, …), and return the last of them.

        deter (M, D); gathered (M, U), the output of a GatheredLinear of `of_stoch` and `bias`.
        Outputs of hidden layers include the activation.
        """
        x = product_plus(gathered, deter, self.of_deter, out=outputs[0])
        for (bias, weight), y in zip(self._others, outputs[1:], strict=True):
            x = product_plus(bias, elu_(x), weight, out=y)
        return x


class _WithGradient(torch.autograd.Function):
    """The output of a perceptron as a function of its weights and biases."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor) -> Tensor:
        """tensors: the inputs, then `count` outputs, `count` weights and `count` biases."""
        ctx.count = count
        ctx.save_for_backward(*tensors[:count], *tensors[count + 1 : 2 * count + 1])
        return tensors[count].clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        count = ctx.count
        inputs, weights = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        (grad,) = grads
        d_weights: list[Tensor] = []
        d_biases: list[Tensor] = []
        for i in reversed(range(count)):
            d_weights.append(outer(grad, inputs[i]))
            d_biases.append(grad.sum(0))
            if i:
                grad = elu_gradient(product(grad, weights[i]), inputs[i])
        no_gradients = [None] * (count + 2)  # of `count`, inputs and outputs
        return (*no_gradients, *reversed(d_weights), *reversed(d_biases))


def with_gradient(mlp: MLP, inputs: Tensor, outputs: list[Tensor]) -> Tensor:
    """The last of `outputs`, each (M, …), differentiable in the weights. inputs (M, F)."""
    layers = [_linear(layer) for layer in (*mlp.hidden, mlp.out)]
    weights, biases = [x.weight for x in layers], [x.bias for x in layers]
    out: Tensor = _WithGradient.apply(len(layers), inputs, *outputs, *weights, *biases)  # type: ignore[no-untyped-call]
    return out


def one_hot_rows(latent: Categorical, stoch: Tensor) -> Tensor:
    """The positions of the ones of one-hot states (…, S·K): (…, S)."""
    return latent.per_variable(stoch).argmax(-1) + first_rows(latent, stoch.device)


def draw_rows(latent: Categorical, logits: Tensor, firsts: Tensor) -> Tensor:
    """The positions of the ones of `latent.sample(logits)`: (…, S)."""
    uniform = latent.noise(logits).unsqueeze(-1)
    total = torch.softmax(latent.per_variable(logits), -1).cumsum(-1)
    # The last sum may be a rounding error below 1: scale by it.
    classes = torch.searchsorted(total, uniform * total[..., -1:]).squeeze(-1)
    return classes.clamp_(max=latent.classes[0] - 1).add_(firsts)


def first_rows(latent: Categorical, device: torch.device) -> Tensor:
    """The positions of the first class of each variable: (S,)."""
    return torch.arange(0, latent.size, latent.classes[0], device=device)


def _linear(layer: nn.Module) -> nn.Linear:
    assert isinstance(layer, nn.Linear), layer
    return layer
