"""Networks of images on chunks of a batch: equal results and gradients in less memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

ENCODED = 512  # frames per chunk of an encoder
DECODED = 128  # frames per chunk of a decoder

Term = Callable[[Tensor, slice], Tensor]  # features of some rows (n, F), the rows → a scalar


def encoder_applies(frames: Tensor) -> bool:
    return frames.device.type == "cpu" and not torch.compiler.is_compiling()


def encode_chunks(encode: Callable[[Tensor], Tensor], frames: Tensor) -> Tensor:
    """Concatenate `encode` of each chunk. The backward pass frees memory after each chunk."""
    return torch.cat([encode(chunk) for chunk in torch.split(frames, ENCODED)])


def sum_applies(features: Tensor) -> bool:
    return (
        features.device.type == "cpu"
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def sum_chunks(term: Term, features: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """Σ over chunks of `term`, differentiable in the features (N, F) and in the parameters.

    The activations of a decoder take as much memory as the rest of an update. Here each chunk runs
    forward and backward at once; only the gradients of its features and of the parameters are
    stored.
    """
    total: Tensor = _SumChunks.apply(term, features, *parameters)  # type: ignore[no-untyped-call]
    return total


class _SumChunks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, term: Term, features: Tensor, *parameters: Tensor) -> Tensor:
        total = features.new_zeros(())
        d_features = torch.empty_like(features)
        d_parameters = [torch.zeros_like(parameter) for parameter in parameters]
        for start in range(0, len(features), DECODED):
            rows = slice(start, start + DECODED)
            x = features[rows].detach().requires_grad_()
            with torch.enable_grad():
                part = term(x, rows)
            d_features[rows], *grads = torch.autograd.grad(
                part, [x, *parameters], materialize_grads=True
            )
            torch._foreach_add_(d_parameters, grads)
            total += part.detach()
        ctx.save_for_backward(d_features, *d_parameters)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_features, *d_parameters = torch._foreach_mul(ctx.saved_tensors, grads[0])
        return None, d_features, *d_parameters
