"""Matrix products of oneDNN, where they are faster than torch's default.

On a CPU torch multiplies matrices with MKL, which uses half of the vector width of AMD processors
with AVX-512. On these, oneDNN, which torch uses for convolutions, is about twice as fast in
float32. On other hardware and for small products, these functions call torch's default.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmtk.models.kernels import enabled, selected

_FEW = 2**22  # multiplications: with fewer, oneDNN is slower than torch's default
_MANY = 1024  # rows: with fewer, a convolution sums outer products more slowly


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a (M, K) @ b (K, N), like `torch.mm`; transposed views cost no copy."""
    if not _use_onednn(a, b):
        return torch.mm(a, b, out=out)
    result = _onednn(a, b, None)
    return result if out is None else out.copy_(result)


def product_plus(bias: Tensor, a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """bias (N,) or (M, N) + a (M, K) @ b (K, N), like `torch.addmm`."""
    if not _use_onednn(a, b):
        return torch.addmm(bias, a, b, out=out)
    result = _onednn(a, b, bias)
    return result if out is None else out.copy_(result)


def outer(a: Tensor, b: Tensor) -> Tensor:
    """The sum over rows of their outer products: a (M, N), b (M, K) → a.t() @ b, (N, K)."""
    if len(a) < _MANY or not _use_onednn(a.t(), b):
        return product(a.t(), b)
    # Computed as the gradient of a 1×1 convolution's weight, which needs no copy of `a`.
    M = len(a)
    x = b.contiguous().view(1, 1, M, -1).permute(0, 3, 1, 2)  # (1, K, 1, M), channels last
    y = a.contiguous().view(1, 1, M, -1).permute(0, 3, 1, 2)  # (1, N, 1, M)
    weight = x.new_empty(a.shape[1], b.shape[1], 1, 1)
    result: Tensor = torch.ops.aten.convolution_backward(
        y, x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
    )[1]
    return result.flatten(1)


class Linear(nn.Linear):
    """torch.nn.Linear with the products of this module, forward and backward."""

    def forward(self, x: Tensor) -> Tensor:
        if not _use_onednn(x.reshape(-1, x.shape[-1]), self.weight.t()):
            return F.linear(x, self.weight, self.bias)
        y: Tensor = _Linear.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        y = _onednn(x.reshape(-1, x.shape[-1]), weight.t(), bias)
        return no_view(y, (*x.shape[:-1], len(weight)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grads[0].reshape(-1, len(weight))
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            product(grad, weight).view(x.shape) if needs_x else None,
            outer(grad, x.reshape(-1, x.shape[-1])) if needs_weight else None,
            grad.sum(0) if needs_bias else None,
        )


def no_view(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Reshape without a view, so that autograd allows in-place operations without a copy."""
    result: Tensor = torch.ops.aten._unsafe_view(x, shape)
    return result


def _onednn(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    vector = bias if bias is not None and bias.ndim == 1 else None
    linear = torch.ops.mkldnn._linear_pointwise
    result: Tensor = linear(_dense(a), _dense(b).t(), vector, "none", [], "")
    # A bias (M, N) is added afterwards: inside of the product, a bias that is not contiguous makes
    # oneDNN a thousand times slower.
    return result if bias is None or bias is vector else result.add_(bias)


def _dense(x: Tensor) -> Tensor:
    """The matrix without gaps in memory: a copy, unless it or its transpose is contiguous."""
    return x if x.is_contiguous() or x.t().is_contiguous() else x.contiguous()


def _use_onednn(a: Tensor, b: Tensor) -> bool:
    """Whether oneDNN computes a (M, K) @ b (K, N)."""
    pays = len(a) * b.numel() >= _FEW and narrow_products()
    if not pays and selected() != "fast":
        return False
    return enabled(
        not torch.compiler.is_compiling()
        and a.dtype == b.dtype == torch.float32
        and a.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and has_onednn()
    )


@functools.cache
def has_onednn() -> bool:
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def narrow_products() -> bool:
    """Whether torch's default products use half of the vector width of this processor."""
    info = Path("/proc/cpuinfo")
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and info.exists()
        and "AuthenticAMD" in info.read_text()
    )
