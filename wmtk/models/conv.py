"""Images in and out: the four convolutions of DreamerV1 and their counterpart."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from wmtk.errors import ConfigError
from wmtk.models.kernels.elu import elu
from wmtk.models.kernels.matmul import Linear
from wmtk.models.kernels.strided_conv import (
    conv,
    conv_of_small_image,
    transpose_of_small_image,
    transpose_to_few_channels,
)

SIZE = 64  # height and width of the images: what the decoder's strides add up to
_PIECE = 512  # frames that an encoder takes at a time on a CPU: less memory, and as fast


def check_image(name: str, shape: tuple[int, ...]) -> None:
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
        if x.device.type == "cpu" and len(x) > _PIECE and not torch.compiler.is_compiling():
            # The gradients of a piece's layers are gone before those of the next are computed.
            return torch.cat([self._embed(piece) for piece in torch.split(x, _PIECE)])
        return self._embed(x)

    def _embed(self, x: Tensor) -> Tensor:
        *layers, last = self.layers
        for layer in layers:
            x = elu(conv(x, *weights(layer)))
        return elu(conv_of_small_image(x, *weights(last))).flatten(1)


class ConvDecoder(nn.Module):
    """(N, F) → (N, 64, 64, C): kernels 5, 5, 6, 6, stride 2; 1→5→13→30→64."""

    def __init__(self, inputs: int, channels: int, depth: int) -> None:
        super().__init__()
        self.depth = depth
        self.linear = Linear(inputs, 32 * depth)
        # A transposed convolution of a 1×1 image is a linear layer, and several times faster
        # as one. Its output is laid out as (5, 5, channels).
        self.first = Linear(32 * depth, 5 * 5 * 4 * depth, bias=False)
        self.first_bias = nn.Parameter(torch.zeros(4 * depth))
        self.second = nn.ConvTranspose2d(4 * depth, 2 * depth, 5, stride=2)
        self.third = nn.ConvTranspose2d(2 * depth, depth, 6, stride=2)
        self.last = nn.ConvTranspose2d(depth, channels, 6, stride=2)

    def initialize(self) -> None:
        """Glorot bounds of the convolution that `first` stands for."""
        fan_in, fan_out = 32 * self.depth * 25, 4 * self.depth * 25
        bound = (6 / (fan_in + fan_out)) ** 0.5
        nn.init.uniform_(self.first.weight, -bound, bound)

    def forward(self, features: Tensor) -> Tensor:
        x: Tensor = self.first(self.linear(features))
        x = elu(x.reshape(-1, 5, 5, 4 * self.depth) + self.first_bias)
        x = elu(transpose_of_small_image(x, *weights(self.second)))
        x = elu(transpose_to_few_channels(x, *weights(self.third)))
        return transpose_to_few_channels(x, *weights(self.last))


def weights(layer: nn.Module) -> tuple[Tensor, Tensor]:
    """Of a convolution, which only holds them: fast_conv computes."""
    assert isinstance(layer.weight, Tensor), layer
    assert isinstance(layer.bias, Tensor), layer
    return layer.weight, layer.bias


def to_float(image: Tensor) -> Tensor:
    """Bytes 0 … 255 → [−0.5, 0.5]."""
    return image.to(torch.float32) / 255 - 0.5


def to_bytes(image: Tensor) -> Tensor:
    """[−0.5, 0.5] → bytes, clamped."""
    return ((image + 0.5) * 255).round().clamp(0, 255).to(torch.uint8)
