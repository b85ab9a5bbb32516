"""The fast convolutions equal torch's own, gradients included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from wmtk.models import kernels as switch
from wmtk.models.kernels import strided_conv

Convolution = Callable[[Tensor, Tensor, Tensor], Tensor]

CASES: dict[str, tuple[Convolution, int, int, int, int, bool]] = {
    # function, image size, channels in, channels out, kernel, transposed
    "without-view": (strided_conv.conv_without_view, 9, 7, 5, 4, False),
    "small-image": (strided_conv.conv_of_patches, 6, 7, 5, 4, False),
    "transpose-small-image": (strided_conv.transpose_of_patches, 5, 70, 5, 5, True),
    "transpose-to-gray": (strided_conv.transpose_of_blocks, 30, 5, 1, 6, True),
    "transpose-to-color": (strided_conv.transpose_of_blocks, 30, 5, 3, 6, True),
    "transpose-to-eight": (strided_conv.transpose_of_blocks, 30, 5, 8, 6, True),
    "transpose-odd-image": (strided_conv.transpose_of_blocks, 13, 6, 4, 6, True),
}


def run(
    function: Convolution, x: Tensor, weight: Tensor, bias: Tensor, low: float = -1.0
) -> list[Tensor]:
    leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias)]
    y = function(*leaves)
    (y * torch.linspace(low, 1, y.numel(), dtype=y.dtype).reshape(y.shape)).sum().backward()
    gradients = [leaf.grad for leaf in leaves]
    return [y.detach(), *[g for g in gradients if g is not None]]


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name: str) -> None:
    function, size, channels, outputs, kernel, transposed = CASES[name]
    torch.manual_seed(0)
    shape = (channels, outputs) if transposed else (outputs, channels)
    x = torch.randn(3, size, size, channels, dtype=torch.float64)
    weight = torch.randn(*shape, kernel, kernel, dtype=torch.float64)
    bias = torch.randn(outputs, dtype=torch.float64)
    plain = strided_conv.plain_conv_transpose if transposed else strided_conv.plain_conv
    ours, theirs = run(function, x, weight, bias), run(plain, x, weight, bias)
    assert len(ours) == len(theirs) == 4
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


def test_pieces_of_a_batch_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(7, 5, 5, 64), torch.randn(64, 4, 5, 5), torch.randn(4)
    whole = run(strided_conv.transpose_of_patches, x, weight, bias)
    monkeypatch.setattr(strided_conv, "_PATCH_NUMBERS", 3 * 5 * 5 * 5 * 5 * 4)  # three at a time
    for mine, other in zip(
        run(strided_conv.transpose_of_patches, x, weight, bias), whole, strict=True
    ):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("name", CASES)
def test_in_bfloat16_it_is_nearly_the_same(name: str) -> None:
    function, size, channels, outputs, kernel, transposed = CASES[name]
    torch.manual_seed(0)
    shape = (channels, outputs) if transposed else (outputs, channels)
    x, bias = torch.randn(3, size, size, channels), torch.randn(outputs)
    weight = torch.randn(*shape, kernel, kernel) / channels**0.5

    def lower(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y = function(x, weight, bias)
        assert y.dtype == torch.bfloat16
        return y.float()

    low = 0.5  # from where on nothing cancels out
    ours, theirs = run(lower, x, weight, bias, low), run(function, x, weight, bias, low)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - other).norm() < 0.01 * other.norm()
        assert not torch.equal(mine, other)


@pytest.mark.parametrize("size", [5, 6, 9, 30])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_switch_chooses_between_equals(size: int, transposed: bool) -> None:
    torch.manual_seed(0)
    conv = strided_conv.strided_conv_transpose if transposed else strided_conv.strided_conv
    layer = (torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d)(7, 7, 4, stride=2)
    x, weight, bias = torch.randn(3, size, size, 7), layer.weight.detach(), layer.bias.detach()

    def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        given = torch.nn.Module()
        given.weight, given.bias = weight, bias
        return conv(x, given)

    results = {}
    for kernels in ("plain", "auto", "fast"):
        with switch.using(kernels):
            results[kernels] = run(function, x, weight, bias)
    for name in ("auto", "fast"):
        for mine, other in zip(results[name], results["plain"], strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
