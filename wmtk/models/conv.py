"""The convolutional encoder and decoder of DreamerV1, for images of 64 × 64 pixels."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from wmtk.errors import ConfigError
from wmtk.models.kernels import enabled
from wmtk.models.kernels.chunks import ENCODED, encode_chunks, encoder_applies
from wmtk.models.kernels.elu import elu
from wmtk.models.kernels.matmul import Linear
from wmtk.models.kernels.strided_conv import strided_conv, strided_conv_transpose

SIZE = 64  # height and width of the images, as the decoder's kernels and strides produce them


def require_image_size(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or shape[:2] != (SIZE, SIZE):
        raise ConfigError(
            f"The image {name!r} has shape {shape}; the networks take {SIZE}×{SIZE}.",
            f"Leave data.image_size at {SIZE}: images of other sizes are resized to it.",
        )


class ConvEncoder(nn.Module):
    """(N, 64, 64, C) in [−0.5, 0.5] → (N, 32·depth): kernel 4, stride 2; 64→31→14→6→2."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        sizes = [channels, depth, 2 * depth, 4 * depth, 8 * depth]
        self.layers = nn.ModuleList(nn.Conv2d(n, m, 4, stride=2) for n, m in pairwise(sizes))
        self.size = 8 * depth * 2 * 2

    def forward(self, x: Tensor) -> Tensor:
        if enabled(applies=encoder_applies(x), pays=len(x) > ENCODED):
            return encode_chunks(self._encode, x)
        return self._encode(x)

    def _encode(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = elu(strided_conv(x, layer))
        return x.flatten(1)


class ConvDecoder(nn.Module):
    """(N, F) → (N, 64, 64, C): kernels 5, 5, 6, 6, stride 2; 1→5→13→30→64."""

    def __init__(self, inputs: int, channels: int, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.linear = Linear(inputs, 32 * depth)
        # A transposed convolution of a 1×1 image, which is a linear layer with outputs laid out as
        # (5, 5, channels).
        self.first = Linear(32 * depth, 5 * 5 * 4 * depth, bias=False)
        self.first_bias = nn.Parameter(torch.zeros(4 * depth))
        self.second = nn.ConvTranspose2d(4 * depth, 2 * depth, 5, stride=2)
        self.third = nn.ConvTranspose2d(2 * depth, depth, 6, stride=2)
        self.last = nn.ConvTranspose2d(depth, channels, 6, stride=2)

    def initialize(self) -> None:
        """Initialize `first` with the Glorot bounds of the equivalent transposed convolution."""
        fan_in, fan_out = 32 * self.depth * 25, 4 * self.depth * 25
        bound = (6 / (fan_in + fan_out)) ** 0.5
        nn.init.uniform_(self.first.weight, -bound, bound)

    @torch.no_grad()
    def start_at(self, color: Tensor) -> None:
        """Set the bias of the last layer to a color (C,)."""
        assert self.last.bias is not None
        self.last.bias.copy_(color)

    def forward(self, features: Tensor) -> Tensor:
        x: Tensor = self.first(self.linear(features))
        x = elu(x.reshape(-1, 5, 5, 4 * self.depth) + self.first_bias)
        x = elu(strided_conv_transpose(x, self.second))
        x = elu(strided_conv_transpose(x, self.third))
        return strided_conv_transpose(x, self.last)


def to_float(image: Tensor) -> Tensor:
    """Bytes 0 … 255 → [−0.5, 0.5]."""
    return image.to(torch.float32) / 255 - 0.5


def to_bytes(image: Tensor) -> Tensor:
    """[−0.5, 0.5] → bytes, clamped."""
    return ((image + 0.5) * 255).round().clamp(0, 255).to(torch.uint8)
