"""How much memory an update takes, and what to do when there is not enough."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

import torch
from torch import Tensor

from wmtk.agent.device import return_freed_memory
from wmtk.errors import MemoryExhaustedError
from wmtk.models.world_model import Inputs
from wmtk.runs.state_dict import fork_rng
from wmtk.runs.training_config import DataConfig
from wmtk.training.model_trainer import ModelTrainer

# How the allocators of processors and of Apple's GPUs say it; CUDA's has an exception of its own.
_COMPLAINTS = (
    "DefaultCPUAllocator",
    "not enough memory",
    "out of memory",
    "out_of_memory",
    "bad_alloc",
    "Cannot allocate memory",
    # oneDNN's convolutions and products, which do not say why: none of ours is refused else.
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory",
    "could not initialize a memory",
    "could not create an engine",
    "could not create a stream",
)
# Peak memory to what is kept for going back, measured on a CPU: kernels make copies of both.
ON_THE_WAY = 2.5


@contextmanager
def exhaustion_explained(trainer: ModelTrainer, data: DataConfig) -> Iterator[None]:
    """Turn a lack of memory into an error that says how much is needed, and what to set."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_exhaustion(error):
            raise
        traceback.clear_frames(error.__traceback__)  # which hold the tensors of the update
        return_freed_memory()
        B, L = data.batch_size, data.length
        need, half = _needs(trainer, [B * L, max(B // 2, 1) * L])
        smaller = f"--set data.batch_size={B // 2}{half and f' ({half})'}, "
        raise MemoryExhaustedError(
            f"Batches of {B} × {L} take more memory than there is{need and f': {need}'}.",
            f"Try {smaller if B > 1 else ''}--set data.length={max(L // 2, 2)}, or a smaller "
            "model: --preset tiny.",
        ) from error


def _is_exhaustion(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return any(complaint in str(error) for complaint in _COMPLAINTS)


def _needs(trainer: ModelTrainer, rows: Sequence[int]) -> list[str]:
    """What updates of so many rows take, for people; nothing if not even that can be found out."""
    try:
        return [f"about {_gigabytes(estimate(trainer, count))}" for count in rows]
    except (MemoryError, RuntimeError, OSError):
        return [""] * len(rows)


def estimate(trainer: ModelTrainer, rows: int) -> int:
    """Bytes that an update of so many rows takes, roughly, from what two small ones keep."""
    weights = sum(weight.numel() * weight.element_size() for weight in trainer.model.parameters())
    few, more = 2, 6
    at_few, at_more = (_kept_for_going_back(trainer, count) for count in (few, more))
    kept = at_few + (rows - few) * (at_more - at_few) / (more - few)
    # Beside them are their gradients and two moments.
    return round(4 * weights + ON_THE_WAY * max(kept, 0))


class _Kept:
    """A tensor that an operation keeps for its gradient, for as long as it does."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _kept_for_going_back(trainer: ModelTrainer, rows: int) -> int:
    """Bytes that the loss of a window holds on to, besides the weights."""
    kept: WeakSet[_Kept] = WeakSet()

    def pack(tensor: Tensor) -> _Kept:
        packed = _Kept(tensor)
        kept.add(packed)
        return packed

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor)
    with fork_rng(), hooks:
        loss = trainer.model.loss(_blank(trainer, rows))[0]
    storages = {x.tensor.untyped_storage().data_ptr(): x.tensor for x in kept}
    for weight in trainer.model.parameters():
        storages.pop(weight.untyped_storage().data_ptr(), None)
    held = sum(tensor.untyped_storage().nbytes() for tensor in storages.values())
    del loss  # until here it holds them
    return held


def _blank(trainer: ModelTrainer, rows: int) -> Inputs:
    """A window of nothing, with the shapes of the data."""
    model, device = trainer.model, trainer.device
    specs = model.images | model.vectors
    flags = torch.zeros(1, rows, dtype=torch.bool, device=device)
    return Inputs(
        obs={
            key: torch.zeros(
                1, rows, *spec.shape, dtype=torch.uint8 if spec.is_image else torch.float32
            ).to(device)
            for key, spec in specs.items()
        },
        action=torch.zeros(1, rows, trainer.actions.size, device=device),
        reward=torch.zeros(1, rows, device=device),
        terminal=flags,
        is_first=flags,
        mask=~flags,
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"
