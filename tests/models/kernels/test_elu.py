"""Equal to torch's own ELU, gradients included, whatever the size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from wmtk.models.kernels import elu as elu_module
from wmtk.models.kernels.elu import elu, elu_gradient

SIZES = [1, 100, elu_module._FEW, elu_module._PIECE, 2 * elu_module._PIECE + 7]


@pytest.mark.parametrize("size", SIZES)
def test_values(size: int) -> None:
    x = 4 * torch.randn(size, generator=torch.Generator().manual_seed(size))
    x[0] = 0
    # Three units in the last place of numbers near 1: what torch's sigmoid is good for.
    torch.testing.assert_close(elu(x.clone()), F.elu(x), rtol=0, atol=3 * 2**-23)


def test_extremes() -> None:
    x = torch.zeros(elu_module._FEW)
    x[:6] = torch.tensor([-torch.inf, -200.0, 200.0, 1e30, torch.inf, torch.nan])
    found = elu(x.clone())
    assert found[:5].tolist() == F.elu(x)[:5].tolist()
    assert found[5].isnan()


@pytest.mark.parametrize("size", SIZES)
def test_gradients(size: int) -> None:
    x = torch.randn(size, generator=torch.Generator().manual_seed(size), requires_grad=True)
    weight = torch.linspace(-1, 1, size)
    (found,) = torch.autograd.grad((elu(2 * x) * weight).sum(), x)
    (expected,) = torch.autograd.grad((F.elu(2 * x) * weight).sum(), x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    y = F.elu(2 * x.detach())
    torch.testing.assert_close(2 * elu_gradient(weight, y), expected, rtol=0, atol=1e-6)


def test_it_overwrites_what_it_is_given() -> None:
    for size in SIZES:
        x = torch.full((size,), -1.0)
        assert elu(x) is x
        assert x[-1].item() == pytest.approx(-0.63212, abs=1e-5)


def test_a_view_with_gaps() -> None:
    x = torch.randn(2 * elu_module._FEW, 2)
    expected = F.elu(x[:, 0])
    torch.testing.assert_close(elu(x[:, 0]), expected)
