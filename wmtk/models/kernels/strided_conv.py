"""Convolutions of stride 2 that are faster on a CPU than torch's for the shapes of the encoder.

Each equals `F.conv2d` or `F.conv_transpose2d`, gradients included, and takes the same weights;
docs/benchmarks.md has the measured gains. On other devices they call these functions. Images are
(N, H, W, C), the layout of the CPU kernels and of datasets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmtk.models.kernels import enabled
from wmtk.models.kernels.matmul import no_view, outer, product, product_plus

STRIDE = 2
_SMALL = 6  # height of small images
_FEW = 64  # channels: with fewer, summing the patches takes longer than the product saves
_PATCH_NUMBERS = 2**23  # per piece: 32 MB of patches, which stay in or near the cache


def strided_conv(x: Tensor, layer: nn.Module) -> Tensor:
    """An nn.Conv2d of stride 2: x (N, H, W, in) → (N, h, w, out)."""
    weight, bias = _parameters(layer)
    if not enabled(_applies(x)):
        return plain_conv(x, weight, bias)
    k, (H, W) = weight.shape[-1], x.shape[1:3]
    patches = H <= _SMALL and (H - k) % STRIDE == (W - k) % STRIDE == 0
    return (conv_of_patches if patches else conv_without_view)(x, weight, bias)


def strided_conv_transpose(x: Tensor, layer: nn.Module) -> Tensor:
    """An nn.ConvTranspose2d of stride 2: x (N, h, w, in) → (N, H, W, out)."""
    weight, bias = _parameters(layer)
    if x.shape[1] <= _SMALL and enabled(_applies(x), pays=x.shape[-1] >= _FEW):
        return transpose_of_patches(x, weight, bias)
    if x.shape[1] > _SMALL and enabled(_applies(x) and weight.shape[2] % STRIDE == 0):
        return transpose_of_blocks(x, weight, bias)
    return plain_conv_transpose(x, weight, bias)


def _parameters(layer: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(layer.weight, Tensor), layer
    assert isinstance(layer.bias, Tensor), layer
    return layer.weight, layer.bias


# --- plain ------------------------------------------------------------------------------------


def plain_conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _last(F.conv2d(_first(x), weight, bias, STRIDE))


def plain_conv_transpose(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return _last(F.conv_transpose2d(_first(x), weight, bias, STRIDE))


# --- kernels ----------------------------------------------------------------------------------


def conv_without_view(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """torch's convolution. The output is no view, so that `elu` overwrites it without a copy."""
    return _apply(_Conv, x, weight, bias)


def conv_of_patches(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A matrix product of all patches, for small images as in the last layer of an encoder."""
    return _apply(_PatchConv, x, weight, bias)


def transpose_of_patches(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A matrix product that yields patches, which are summed.

    For small images, as in the first layers of a decoder.
    """
    return _apply(_PatchTranspose, x, weight, bias)


def transpose_of_blocks(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A convolution that yields blocks of pixels.

    For few channels and even kernels, as in the last layers of a decoder.
    """
    size, outputs, kernel = x.shape[1], weight.shape[1], weight.shape[2]
    assert kernel % STRIDE == 0, kernel
    block = 4 if outputs <= 4 and size % 2 == 0 and (kernel - STRIDE) % 4 == 0 else 2
    return _apply(_BlockTranspose, x, weight, bias, block)


def _applies(x: Tensor) -> bool:
    lower = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")
    return x.device.type == "cpu" and (not lower or lower == torch.bfloat16)


def _apply(
    function: type[torch.autograd.Function],
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *options: object,
) -> Tensor:
    """Apply a function in autocast's dtype; each gradient has the dtype of its input."""
    if torch.is_autocast_enabled("cpu"):
        lower = torch.get_autocast_dtype("cpu")
        x, weight, bias = x.to(lower), weight.to(lower), bias.to(lower)
    with torch.autocast("cpu", enabled=False):
        y: Tensor = function.apply(x, weight, bias, *options)  # type: ignore[no-untyped-call]
    return y


def _first(x: Tensor) -> Tensor:
    """(N, H, W, C) → (N, C, H, W), the layout of torch's functions: a view, channels last."""
    return x.permute(0, 3, 1, 2)


def _last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


class _Conv(torch.autograd.Function):
    """A convolution whose output is no view: in-place changes of views copy gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        y = _last(F.conv2d(_first(x), weight, bias, STRIDE))
        return no_view(y, y.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        d_x, d_weight, d_bias = _backward(grads[0], x, weight, False, ctx.needs_input_grad[0])
        return None if d_x is None else _last(d_x), d_weight, d_bias


def _backward(
    grad: Tensor, x: Tensor, weight: Tensor, transposed: bool, d_x: bool = True
) -> tuple[Tensor | None, Tensor, Tensor]:
    """torch's gradients of a convolution by `x` (None unless `d_x`), `weight` and bias."""
    gradients: tuple[Tensor | None, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        _first(grad), _first(x), weight, [grad.shape[-1]],
        [STRIDE, STRIDE], [0, 0], [1, 1], transposed, [0, 0], 1, [d_x, True, True],
    )  # fmt: skip
    return gradients


# --- patches ----------------------------------------------------------------------------------


def patches_of(x: Tensor, kernel: int) -> Tensor:
    """(N, H, W, C) → (N, h, w, k, k, C): the pixels under the kernel at each output position."""
    return x.unfold(1, kernel, STRIDE).unfold(2, kernel, STRIDE).permute(0, 1, 2, 4, 5, 3)


def sum_of_patches(patches: Tensor) -> Tensor:
    """(N, h, w, k, k, C) → (N, H, W, C): the sum of all patches, each at its position."""
    N, h, w, k, _, C = patches.shape
    image = patches.new_zeros(N, STRIDE * (h - 1) + k, STRIDE * (w - 1) + k, C)
    for i in range(h):
        for j in range(w):
            top, left = STRIDE * i, STRIDE * j
            image[:, top : top + k, left : left + k] += patches[:, i, j]
    return image


def _pieces(images: int, numbers: int) -> Iterator[slice]:
    """Slices of a batch whose patches, of `numbers` per image, fit into the cache."""
    step = max(1, _PATCH_NUMBERS // numbers)
    return (slice(start, start + step) for start in range(0, images, step))


class _PatchConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        k = weight.shape[-1]
        flat = weight.permute(2, 3, 1, 0).reshape(-1, len(weight))  # (k·k·in, out)
        patches = patches_of(x, k)
        y = x.new_empty(*patches.shape[:3], len(weight))
        product_plus(bias, patches.reshape(-1, len(flat)), flat, out=y.view(-1, len(weight)))
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        grad = grads[0].reshape(-1, len(weight))
        k = weight.shape[-1]
        patches = patches_of(x, k)
        flat = weight.permute(2, 3, 1, 0).reshape(-1, len(weight))
        d_weight = outer(patches.reshape(-1, len(flat)), grad)
        d_weight = d_weight.reshape(k, k, -1, len(weight)).permute(3, 2, 0, 1)
        d_x = None
        if ctx.needs_input_grad[0]:
            d_x = sum_of_patches(product(grad, flat.t()).reshape(patches.shape))
        return d_x, d_weight, grad.sum(0)


class _PatchTranspose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        N, h, w, C = x.shape
        outputs, k = weight.shape[1:3]
        flat = weight.permute(0, 2, 3, 1).reshape(C, -1)  # (in, k·k·out)
        y = x.new_empty(N, STRIDE * (h - 1) + k, STRIDE * (w - 1) + k, outputs)
        for piece in _pieces(N, h * w * flat.shape[1]):
            patches = product(x[piece].reshape(-1, C), flat).reshape(-1, h, w, k, k, outputs)
            torch.add(sum_of_patches(patches), bias, out=y[piece])
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        grad = grads[0]
        N, h, w, C = x.shape
        k = weight.shape[-1]
        flat = weight.permute(0, 2, 3, 1).reshape(C, -1)
        summed = torch.promote_types(x.dtype, torch.float32)
        d_x, d_weight = torch.empty_like(x), torch.zeros_like(flat, dtype=summed)
        for piece in _pieces(N, h * w * flat.shape[1]):
            patches = patches_of(grad[piece], k).reshape(-1, flat.shape[1])
            d_weight += outer(x[piece].reshape(-1, C), patches)
            d_x[piece] = product(patches, flat.t()).reshape(-1, h, w, C)
        d_weight = d_weight.to(weight).reshape(C, k, k, -1).permute(0, 3, 1, 2)
        return d_x, d_weight, grad.sum((0, 1, 2))


# --- blocks -----------------------------------------------------------------------------------


class _BlockTranspose(torch.autograd.Function):
    """A transposed convolution, computed as one of stride 1 whose channels are blocks of pixels.

    With blocks of `b` output pixels, computed from blocks of `b / 2` input pixels, along one axis:
    out[b·I + a] = Σ x[b/2·(I − s) + p] · weight[a + b·s − 2·p] over p and the shifts s.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, block: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        outputs, k = weight.shape[1:3]
        taps = _taps(k, block).to(weight)  # (a, p, s, tap)
        shifts = taps.shape[2]
        big = torch.einsum("coij,apsi,bqtj->abostpqc", weight, taps, taps)
        big = big.reshape(block * block * outputs, shifts, shifts, -1)
        blocks = _to_blocks(x, block // STRIDE)
        y = F.conv2d(_first(blocks), _first(big), bias.repeat(block * block), padding=shifts - 1)
        return _from_blocks(_last(y), block)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        d_x, d_weight, d_bias = _backward(grads[0], x, weight, True)
        assert d_x is not None
        return _last(d_x), d_weight, d_bias, None


def _taps(kernel: int, block: int) -> Tensor:
    """(a, p, s, tap): 1 if `tap` connects output a of a block to input p of s blocks before.

    The shifts s are in reverse order, since torch's convolutions are correlations.
    """
    fine = block // STRIDE
    shifts = -(-(kernel - STRIDE) // block) + 1
    taps = torch.zeros(block, fine, shifts, kernel)
    for a in range(block):
        for p in range(fine):
            for s in range(shifts):
                tap = a + block * s - STRIDE * p
                if 0 <= tap < kernel:
                    taps[a, p, shifts - 1 - s, tap] = 1
    return taps


def _to_blocks(x: Tensor, block: int) -> Tensor:
    """(N, H, W, C) → (N, H / block, W / block, block · block · C)."""
    N, H, W, C = x.shape
    x = x.reshape(N, H // block, block, W // block, block, C).transpose(2, 3)
    return x.reshape(N, H // block, W // block, -1)


def _from_blocks(x: Tensor, block: int) -> Tensor:
    """(N, h, w, block · block · C) → (N, h · block, w · block, C)."""
    N, h, w, _ = x.shape
    x = x.reshape(N, h, w, block, block, -1).transpose(2, 3)
    return x.reshape(N, h * block, w * block, -1)
