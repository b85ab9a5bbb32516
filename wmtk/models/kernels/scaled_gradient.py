"""Both terms of the balanced KL from a single KL, whose gradients are scaled."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def scaled_gradient(x: Tensor, scale: float) -> Tensor:
    """The identity, whose gradient is multiplied by `scale`."""
    y: Tensor = _ScaledGradient.apply(x, scale)  # type: ignore[no-untyped-call]
    return y


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0] * ctx.scale, None
