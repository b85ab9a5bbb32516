"""Checks of a training run: non-finite numbers, loss spikes, collapsed latents, memory."""

from __future__ import annotations

import errno
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from wmtk.agent.device import return_freed_memory
from wmtk.errors import DivergedError, MemoryExhaustedError
from wmtk.models.world_model import Inputs, WorldModel
from wmtk.runs.state_dict import fork_rng
from wmtk.runs.training_config import DataConfig

# --- divergence ---

SPIKE = 50.0  # training stops at a loss above SPIKE times the median
MIN_MEDIAN = 1.0  # nats; lower bound of the median
MEDIAN_WINDOW = 100  # updates
HINT = "Look for outliers in the data, or lower optimizer.lr."


def require_finite(
    step: int, metrics: Mapping[str, Tensor], batch: Mapping[str, Tensor], module: nn.Module
) -> None:
    """Raise unless all metrics are finite; the error names the first tensor that is not."""
    if torch.isfinite(torch.stack(list(metrics.values()))).all():
        return
    name = next(name for name, value in metrics.items() if not torch.isfinite(value))
    cause = _first_not_finite(batch, module)
    raise DivergedError(f"Update {step}: {name} is {metrics[name].item()}. {cause}", HINT)


def _first_not_finite(batch: Mapping[str, Tensor], module: nn.Module) -> str:
    """A sentence that names the first tensor that is not finite: data, weights or gradients."""
    for name, rows in batch.items():  # each (B, T, …)
        wrong = ~torch.isfinite(rows)
        if wrong.any():
            window, row, *_ = wrong.nonzero()[0].tolist()
            return f"The batch's {name} is not finite in row {row} of window {window}."
    for name, weight in module.named_parameters():
        if not torch.isfinite(weight).all():
            return f"The parameter {name} is not finite."
    for name, weight in module.named_parameters():
        if weight.grad is not None and not torch.isfinite(weight.grad).all():
            return f"The gradient of {name} is not finite."
    return "The batch and the parameters are finite: an intermediate result overflowed."


class SpikeDetector:
    """Raises when the loss is many times its recent median."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=MEDIAN_WINDOW)

    def require_usual(
        self, step: int, metrics: Mapping[str, Tensor], constants: Mapping[str, float]
    ) -> None:
        """Check `loss/total` minus the constants of its terms.

        The constants of images are thousands of nats, in which a spike would be small.
        """
        loss = float(metrics["loss/total"]) - sum(constants.values())
        usual = max(median(self._recent), MIN_MEDIAN) if self._recent else MIN_MEDIAN
        if len(self._recent) == MEDIAN_WINDOW and loss > SPIKE * usual:
            terms = {
                name: float(term) - constants.get(name, 0.0)
                for name, term in metrics.items()
                if name.startswith("loss/") and name != "loss/total"
            }
            largest = f"; most of it is {max(terms, key=terms.__getitem__)}" if terms else ""
            raise DivergedError(
                f"Update {step}: the loss, without constants, jumped to {loss:.4g} from about "
                f"{median(self._recent):.4g}{largest}.",
                HINT,
            )
        self._recent.append(loss)


# --- collapsed latents ---

MIN_UPDATES, MIN_KL = 500, 0.1  # after MIN_UPDATES, a KL below MIN_KL nats is a collapse
MIN_ENTROPY = 0.5  # nats; categorical codes with less entropy pass no gradient
RECENT_REPORTS = 5  # reports of training batches that the KL is averaged over


@dataclass(frozen=True)
class Collapse:
    """Latents that carry no information about the observations.

    `stuck` is True if they are also constant and therefore get no gradient.
    """

    kl: float  # nats
    stuck: bool


def collapsed_latents(reports: Sequence[Mapping[str, Any]], updates: int) -> Collapse | None:
    """Detect a collapse in the newest reports of a run; None if there is none.

    Reports of held-out data are used if there are any, else those of training batches.
    """
    if updates < MIN_UPDATES:
        return None
    for side, count in (("val", 1), ("train", RECENT_REPORTS)):
        recent = [r for r in reports if r.get(f"{side}/kl") is not None][-count:]
        if not recent:
            continue
        kl = fmean(report[f"{side}/kl"] for report in recent)
        entropy = recent[-1].get(f"{side}/entropy/posterior")
        categorical = f"{side}/codes/perplexity" in recent[-1]
        stuck = categorical and entropy is not None and entropy < MIN_ENTROPY
        return Collapse(kl, stuck) if kl < MIN_KL else None
    return None


# --- memory ---

# Messages of the allocators of CPUs and of Apple's GPUs; CUDA has its own exception class.
_MESSAGES = (
    "DefaultCPUAllocator",
    "not enough memory",
    "out of memory",
    "out_of_memory",
    "bad_alloc",
    "Cannot allocate memory",
    # Errors of oneDNN's convolutions and products, whose only cause here is a lack of memory.
    "could not create a primitive",
    "could not execute a primitive",
    "could not create a memory",
    "could not initialize a memory",
    "could not create an engine",
    "could not create a stream",
)
# Ratio of peak memory to saved tensors, measured on a CPU: kernels copy both inputs and outputs.
PEAK_RATIO = 2.5


@contextmanager
def exhaustion_explained(model: WorldModel, data: DataConfig) -> Iterator[None]:
    """Convert out-of-memory errors to one with an estimate of the needed memory and a remedy."""
    try:
        yield
    except (MemoryError, RuntimeError, OSError) as error:
        if not _is_exhaustion(error):
            raise
        traceback.clear_frames(error.__traceback__)  # they reference the tensors of the update
        return_freed_memory()
        B, L = data.batch_size, data.length
        need, half = _estimates(model, [B * L, max(B // 2, 1) * L])
        smaller = f"data.batch_size={B // 2}{half and f' ({half})'}, "
        raise MemoryExhaustedError(
            f"Batches of {B} × {L} exceed the available memory{need and f': they need {need}'}.",
            f"Try {smaller if B > 1 else ''}data.length={max(L // 2, 2)}, or a smaller "
            "model: preset=tiny.",
        ) from error


def _is_exhaustion(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return any(message in str(error) for message in _MESSAGES)


def _estimates(model: WorldModel, rows: Sequence[int]) -> list[str]:
    """Formatted estimates for batches of each number of rows; empty texts if estimating fails."""
    try:
        return [f"about {_gigabytes(estimate_memory(model, count))}" for count in rows]
    except (MemoryError, RuntimeError, OSError):
        return [""] * len(rows)


def estimate_memory(model: WorldModel, rows: int) -> int:
    """Approximate bytes of an update on `rows` rows, extrapolated from two smaller batches."""
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    few, more = 2, 6
    at_few, at_more = (_saved_bytes(model, count) for count in (few, more))
    saved = at_few + (rows - few) * (at_more - at_few) / (more - few)
    # Weights, their gradients and the two moments of Adam.
    return round(4 * weights + PEAK_RATIO * max(saved, 0))


class _SavedTensor:
    """A tensor that autograd keeps for the backward pass."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _saved_bytes(model: WorldModel, rows: int) -> int:
    """Bytes that autograd keeps for the loss of one window, without the weights."""
    tensors: WeakSet[_SavedTensor] = WeakSet()

    def pack(tensor: Tensor) -> _SavedTensor:
        packed = _SavedTensor(tensor)
        tensors.add(packed)
        return packed

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.tensor)
    with fork_rng(), hooks:
        loss = model.loss(_blank_window(model, rows))[0]
    storages = {x.tensor.untyped_storage().data_ptr(): x.tensor for x in tensors}
    for weight in model.parameters():
        storages.pop(weight.untyped_storage().data_ptr(), None)
    size = sum(tensor.untyped_storage().nbytes() for tensor in storages.values())
    del loss  # the graph is needed until here
    return size


def _blank_window(model: WorldModel, rows: int) -> Inputs:
    """A window of zeros with the shapes of the data."""
    device = next(model.parameters()).device
    specs = model.images | model.vectors
    flags = torch.zeros(1, rows, dtype=torch.bool, device=device)
    return Inputs(
        obs={
            key: torch.zeros(
                1, rows, *spec.shape, dtype=torch.uint8 if spec.is_image else torch.float32
            ).to(device)
            for key, spec in specs.items()
        },
        action=torch.zeros(1, rows, model.rssm.from_action.in_features, device=device),
        reward=torch.zeros(1, rows, device=device),
        terminal=flags,
        is_first=flags,
        mask=~flags,
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"
