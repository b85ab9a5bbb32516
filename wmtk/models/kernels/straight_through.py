"""One-hot samples with a straight-through gradient, as one node of the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def straight_through(logits: Tensor, probs: Tensor, sample: Tensor) -> Tensor:
    """The sample, with the gradient of `probs` = softmax(logits): each (…, K)."""
    out: Tensor = _StraightThrough.apply(logits, probs, sample)  # type: ignore[no-untyped-call]
    return out


def softmax_gradient(probs: Tensor, grad: Tensor) -> Tensor:
    """The gradient of logits, given that of probs = softmax(logits)."""
    out: Tensor = torch.ops.aten._softmax_backward_data(grad, probs, -1, probs.dtype)
    return out


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, probs: Tensor, sample: Tensor) -> Tensor:
        ctx.save_for_backward(probs)
        return sample.view_as(sample)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (probs,) = ctx.saved_tensors
        return softmax_gradient(probs, grads[0]), None, None
