"""What the machine can do: the rate of a large product and of a convolution, both in float32.

It also counts the operations of one of our updates, apart from the contender: counting must not
show in the memory that is measured there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from run_wmtk import inputs_of, model_trainer
from serve import Arrays, Job, serve
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from wmtk.models import kernels
from wmtk.models.kernels.matmul import product

SIDE = 2048  # of the matrices
FRAMES = 256  # through the second convolution of the paper's encoder, forwards and backwards
AT_LEAST = 0.3  # seconds for each of the two rates


def operations(action: Callable[[], object]) -> int:
    """Floating-point operations of the products and convolutions; all else is not counted."""
    with FlopCounterMode(display=False) as counter:
        action()
    return int(counter.get_total_flops())


def rate(action: Callable[[], object], count: int) -> float:
    """Operations per second."""
    began, times = time.perf_counter(), 0
    while time.perf_counter() - began < AT_LEAST:
        action()
        times += 1
    return times * count / (time.perf_counter() - began)


def of_an_update(arrays: Arrays, preset: str) -> int:
    """Of one update with this batch, from one with a single row: the count goes with the rows."""
    B = len(arrays["reward"])
    one = {key: value[:1] for key, value in arrays.items()}
    trainer = model_trainer(one, preset, "float32")
    # The counter knows neither gradients computed on the way forward nor oneDNN's products.
    with kernels.using("plain"):
        return B * operations(lambda: trainer.update(inputs_of(one), 1))


def prepare(arrays: Arrays, args: argparse.Namespace) -> Job:
    torch.set_num_threads(args.threads)
    left, right = torch.randn(2, SIDE, SIDE)
    frames = torch.randn(FRAMES, 48, 31, 31).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(96, 48, 4, 4).contiguous(memory_format=torch.channels_last)
    frames.requires_grad_()
    weight.requires_grad_()
    gradient = torch.ones_like(F.conv2d(frames, weight, stride=2))

    def convolve() -> tuple[Tensor, ...]:
        out = F.conv2d(frames, weight, stride=2)
        return torch.autograd.grad(out, (frames, weight), gradient)

    counts = 2 * SIDE**3, operations(convolve)

    def run() -> dict[str, float]:
        return {
            "product": rate(lambda: product(left, right), counts[0]),
            "convolution": rate(convolve, counts[1]),
        }

    def about() -> dict[str, Any]:
        return {"operations": of_an_update(arrays, args.preset)}

    return Job(run, about)


if __name__ == "__main__":
    serve(prepare, "preset")
