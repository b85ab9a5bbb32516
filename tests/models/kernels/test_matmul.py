"""The products of oneDNN equal torch's own, gradients included, however matrices lie in memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from wmtk.models.kernels.matmul import Linear, outer, product, product_plus

M, K, N = 1100, 70, 60  # enough for the products that are meant for many rows


@pytest.fixture(autouse=True)
def onednn() -> None:
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this build of torch has no oneDNN")
    torch.manual_seed(0)


def layouts(rows: int, columns: int) -> dict[str, Tensor]:
    """Matrices with the same shape that lie differently in memory."""
    wide = torch.randn(rows, 2 * columns)
    return {
        "plain": torch.randn(rows, columns),
        "transposed": torch.randn(columns, rows).t(),
        "a part": wide[:, :columns],
        "a part, transposed": torch.randn(columns, 2 * rows)[:, :rows].t(),
        "every other": wide[:, ::2],
    }


CLOSE = {"rtol": 1e-4, "atol": 1e-4}
NAMES = list(layouts(1, 1))


@pytest.mark.parametrize("left", NAMES)
@pytest.mark.parametrize("right", NAMES)
def test_products(left: str, right: str) -> None:
    a, b = layouts(M, K)[left], layouts(K, N)[right]
    torch.testing.assert_close(product(a, b), a @ b, **CLOSE)
    out = torch.empty(M, N)
    assert product(a, b, out=out) is out
    torch.testing.assert_close(out, a @ b, **CLOSE)
    torch.testing.assert_close(outer(a, layouts(M, N)[right]).shape, torch.Size([K, N]))


@pytest.mark.parametrize("left", NAMES)
@pytest.mark.parametrize("right", NAMES)
@pytest.mark.parametrize("rows", [30, M])
def test_outer_products(left: str, right: str, rows: int) -> None:
    a, b = layouts(rows, N)[left], layouts(rows, K)[right]
    torch.testing.assert_close(outer(a, b), a.t() @ b, **CLOSE)


@pytest.mark.parametrize("bias", ["a vector", *NAMES])
def test_product_plus(bias: str) -> None:
    a, b = torch.randn(M, K), torch.randn(K, N)
    c = torch.randn(N) if bias == "a vector" else layouts(M, N)[bias]
    expected, out = torch.addmm(c, a, b), torch.empty(M, N)
    torch.testing.assert_close(product_plus(c, a, b), expected, **CLOSE)
    assert product_plus(c, a, b, out=out) is out
    torch.testing.assert_close(out, expected, **CLOSE)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(M, K), (11, 100, K), (2, 3, 5, K)])
def test_linear(shape: tuple[int, ...], bias: bool) -> None:
    ours = Linear(K, N, bias=bias)
    plain = nn.Linear(K, N, bias=bias)
    plain.load_state_dict(ours.state_dict())
    x = torch.randn(*shape)

    def found(layer: nn.Module) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        weights = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
        # Overwritten, as the activation behind a layer does.
        loss = (nn.functional.elu(y, inplace=True) * weights).sum()
        return [y.detach(), *torch.autograd.grad(loss, [leaf, *layer.parameters()])]

    for mine, other in zip(found(ours), found(plain), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    layer = Linear(K, N).requires_grad_(False)
    x = torch.randn(M, K, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(M, K), **CLOSE)
    assert layer.weight.grad is None
    assert layer.bias.grad is None


def test_other_numbers_are_left_to_torch() -> None:
    a, b = torch.randn(M, K, dtype=torch.float64), torch.randn(K, N, dtype=torch.float64)
    assert torch.equal(product(a, b), a @ b)
    with torch.autocast("cpu", torch.bfloat16):
        assert Linear(K, N)(torch.randn(M, K)).dtype == torch.bfloat16
