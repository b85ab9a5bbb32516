"""ELU in place. On a CPU, `F.elu` takes a third longer; ELU is a tenth of the time of an update.

torch computes exp(x) several times more slowly than sigmoid(x) = 1 / (1 + exp(−x)). ELU computed
from sigmoid has an absolute error of at most three units in the last place of a number near 1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wmtk.models.kernels import enabled, selected

_FEW = 2**15  # numbers: with fewer, a single call of torch is faster than four
_PIECE = 2**19  # numbers per piece, so that intermediate results stay in the cache


def elu(x: Tensor) -> Tensor:
    """max(x, 0) + min(exp(x) − 1, 0). Overwrites x, unless `kernels` is plain."""
    return torch.nn.functional.elu(x) if selected() == "plain" else elu_(x)


def elu_(x: Tensor) -> Tensor:
    """ELU in place, because its time is that of its passes over memory."""
    if not enabled(_applies(x), pays=x.numel() >= _FEW):
        return torch.nn.functional.elu(x, inplace=True)
    if torch.is_grad_enabled() and x.requires_grad:
        y: Tensor = _Elu.apply(x)  # type: ignore[no-untyped-call]
        return y
    return _overwrite(x)


def elu_gradient(grad: Tensor, y: Tensor) -> Tensor:
    """The gradient of x, given that of y = elu(x)."""
    d_x: Tensor = torch.ops.aten.elu_backward(grad, 1.0, 1.0, 1.0, True, y)
    return d_x


def _applies(x: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.is_contiguous()
        and not torch.compiler.is_compiling()
    )


def _overwrite(x: Tensor) -> Tensor:
    """Overwrite x by max(x, exp(min(x, 0)) − 1), which equals ELU since exp(x) − 1 ≥ x.

    exp(x) is computed as 1 / sigmoid(−x) − 1.
    """
    flat = x.view(-1)
    buffer = x.new_empty(min(_PIECE, len(flat)))
    for piece in torch.split(flat, _PIECE):
        low = torch.clamp(piece, max=0, out=buffer[: len(piece)])
        torch.maximum(piece, low.neg_().sigmoid_().reciprocal_().sub_(2), out=piece)
    return x


class _Elu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        y = _overwrite(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return elu_gradient(grads[0], ctx.saved_tensors[0])
