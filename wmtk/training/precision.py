"""Fewer bits and compiled code for the parts of a model that see whole batches.

These are its encoders, decoders and heads: nearly all of the arithmetic. The recurrent part stays
as it is, in float32, because its rounding errors would add up over time; and what the other parts
give is turned back to float32, in which all distributions and losses are computed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from wmtk.errors import UsageError
from wmtk.models.rssm import RSSM
from wmtk.runs.training_config import TrainingConfig

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
BACKEND = "inductor"
COMPILERS = ("c++", "g++", "clang++")
_SMALL = 24  # depth of the convolutions: with less, shorter numbers spare little or nothing


def resolve_precision(config: TrainingConfig, device: torch.device | str) -> TrainingConfig:
    """The same settings, with what `auto` is for this model on this machine."""
    if config.precision != "auto":
        return config
    on_cpu = torch.device(device).type == "cpu"
    shorter = on_cpu and config.model.cnn_depth >= _SMALL and fast_bfloat16()
    return config.override({"precision": "bfloat16" if shorter else "float32"})


def fast_bfloat16() -> bool:
    """Whether this processor has instructions for products in bfloat16."""
    can = torch.cpu.get_capabilities()
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))


def set_up(model: nn.Module, device: torch.device, precision: str, *, compiled: bool) -> None:
    """Make the model compute as the settings say; its weights and their names stay the same."""
    for part in _parts(model):
        if precision in DTYPES:
            part.forward = _lowered(part.forward, device.type, DTYPES[precision])
        if compiled:
            _require_compiler(device)
            part.compile(backend=BACKEND)


def make_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler | None:
    """What keeps small gradients from vanishing in float16; the others need none."""
    if precision != "float16":
        return None
    # The loss is a sum over pixels, so that its gradients are large from the first update on;
    # torch's own start, thousands of times higher, would skip a dozen updates to come down.
    return torch.amp.GradScaler(device.type, init_scale=8.0)


def _parts(model: nn.Module) -> Iterator[nn.Module]:
    for child in model.children():
        if isinstance(child, nn.ModuleDict):
            yield from child.values()
        elif not isinstance(child, RSSM):
            yield child


def _lowered(
    forward: Callable[[Tensor], Tensor], device: str, dtype: torch.dtype
) -> Callable[[Tensor], Tensor]:
    def computed(x: Tensor) -> Tensor:
        with torch.autocast(device, dtype):
            out = forward(x)
        return out.float()

    return computed


def _require_compiler(device: torch.device) -> None:
    if device.type == "cpu" and BACKEND == "inductor" and not any(map(shutil.which, COMPILERS)):
        raise UsageError(
            "Compiling a model for the CPU needs a C++ compiler, and there is none.",
            "Install one (on Debian: apt-get install g++), or train without compile.",
        )
