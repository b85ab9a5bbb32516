"""The image likelihood in pieces of a batch: the same number and gradients, in less memory.

What a decoder computes on the way is as large as everything else of an update together. The loss
is a sum over frames, so that each piece can go forward and back at once, and only the gradients
of its features and weights remain.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wmtk.models.conv import ConvDecoder, to_float
from wmtk.models.losses import gaussian_nll

FRAMES = 128  # at a time


def image_nll(decoder: ConvDecoder, features: Tensor, image: Tensor, weights: Tensor) -> Tensor:
    """Σ weight · −ln p(image | features): features (N, F), images (N, H, W, C), weights (N,)."""
    if not _worthwhile(features):
        return (gaussian_nll(decoder(features), to_float(image), 3) * weights).sum()
    parameters = list(decoder.parameters())
    total: Tensor = _ImageNll.apply(  # type: ignore[no-untyped-call]
        decoder, features, image, weights, *parameters
    )
    return total


def _worthwhile(features: Tensor) -> bool:
    return (
        features.device.type == "cpu"
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


class _ImageNll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        decoder: ConvDecoder,
        features: Tensor,
        image: Tensor,
        weights: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        total = features.new_zeros(())
        of_features = torch.empty_like(features)
        of_parameters = [torch.zeros_like(parameter) for parameter in parameters]
        for start in range(0, len(features), FRAMES):
            piece = slice(start, start + FRAMES)
            x = features[piece].detach().requires_grad_()
            with torch.enable_grad():
                nll = gaussian_nll(decoder(x), to_float(image[piece]), 3)
                term = (nll * weights[piece]).sum()
            of_features[piece], *found = torch.autograd.grad(term, [x, *parameters])
            torch._foreach_add_(of_parameters, found)
            total += term.detach()
        ctx.save_for_backward(of_features, *of_parameters)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        of_features, *of_parameters = torch._foreach_mul(ctx.saved_tensors, grads[0])
        return None, of_features, None, None, *of_parameters
