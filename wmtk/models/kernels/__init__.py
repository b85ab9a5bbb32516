"""Faster implementations of operations that `wmtk.models` defines plainly.

Values and gradients equal those of the plain definitions up to rounding. One switch, the setting
`kernels`, applies to all of them in this process:

- ``auto`` uses each kernel where it is faster, by device and size (default),
- ``plain`` runs the definitions in `wmtk.models` only,
- ``fast`` uses each kernel that computes the right result, for any size.

==================== =========================================== =================================
kernel               plain definition                            computes
==================== =========================================== =================================
`straight_through`   `distributions.straight_through_one_hot`    the gradient of one-hot samples
`scaled_gradient`    `losses.balanced_kl`                        both terms from a single KL
`chunks`             `losses.image_nll`, `conv.ConvEncoder`      chunks of a batch: less memory
`strided_conv`       `F.conv2d`, `F.conv_transpose2d`            convolutions of stride 2
`elu`                `F.elu`                                     ELU in place
`matmul`             `F.linear`, `torch.mm`, `torch.addmm`       matrix products of oneDNN
`rssm_scan`          `rssm.RSSM.observe`                         the loop over time, its gradient
`onehot_rollout`     `imagination.imagine`                       imagined steps of one-hot states
==================== =========================================== =================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

Kernels = Literal["auto", "plain", "fast"]

_selected: Kernels = "auto"


def select(kernels: Kernels) -> None:
    """Select kernels for all later operations of the process: see the module's documentation."""
    global _selected
    assert kernels in get_args(Kernels), kernels
    _selected = kernels


def selected() -> Kernels:
    return _selected


@contextmanager
def using(kernels: Kernels) -> Iterator[None]:
    """Select kernels within a block.

    >>> with using("plain"):
    ...     selected()
    'plain'
    """
    previous = _selected
    select(kernels)
    try:
        yield
    finally:
        select(previous)


def enabled(applies: bool, pays: bool = True) -> bool:
    """Whether to run a kernel that computes the right result (`applies`) and is faster (`pays`)."""
    return applies and _selected != "plain" and (pays or _selected == "fast")
