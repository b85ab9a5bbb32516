"""Encoders that take frames in chunks give the same embeddings and gradients."""

from __future__ import annotations

import pytest
import torch

from wmtk.models.conv import ConvEncoder
from wmtk.models.kernels import chunks


def test_pieces_give_the_same_embeddings_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    encoder, frames = ConvEncoder(1, 2), torch.rand(7, 64, 64, 1) - 0.5
    parameters = list(encoder.parameters())
    weights = torch.randn(7, encoder.size)

    def found() -> tuple[torch.Tensor, ...]:
        embed = encoder(frames)
        return embed, *torch.autograd.grad((embed * weights).sum(), parameters)

    whole = found()
    monkeypatch.setattr(chunks, "ENCODED", 3)
    for a, b in zip(found(), whole, strict=True):
        torch.testing.assert_close(a, b)
