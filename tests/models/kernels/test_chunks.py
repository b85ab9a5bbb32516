"""The image likelihood in pieces equals that of the whole batch, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from wmtk.models import kernels as switch
from wmtk.models.conv import ConvDecoder
from wmtk.models.kernels import chunks
from wmtk.models.losses import image_nll


def results(decoder: ConvDecoder, features: Tensor, image: Tensor) -> list[Tensor]:
    leaf = features.clone().requires_grad_()
    weights = torch.linspace(0, 1, len(features))
    total = image_nll(decoder, leaf, image, weights)
    return [total, *torch.autograd.grad(3 * total, [leaf, *decoder.parameters()])]


def test_pieces_equal_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    decoder = ConvDecoder(6, 3, depth=2)
    features, image = torch.randn(7, 6), torch.randint(0, 256, (7, 64, 64, 3), dtype=torch.uint8)
    monkeypatch.setattr(chunks, "DECODED", 3)
    pieces = results(decoder, features, image)
    with switch.using("plain"):
        whole = results(decoder, features, image)
    assert len(pieces) == len(whole) == 2 + 10  # the number, features, and what a decoder has
    for mine, other in zip(pieces, whole, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


def test_without_gradients_nothing_goes_back() -> None:
    decoder = ConvDecoder(6, 1, depth=2)
    image = torch.zeros(2, 64, 64, 1, dtype=torch.uint8)
    with torch.no_grad():
        total = image_nll(decoder, torch.randn(2, 6), image, torch.ones(2))
    assert not total.requires_grad
