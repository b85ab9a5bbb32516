"""Lower precision and compilation of encoders, decoders and heads.

These networks account for nearly all of the arithmetic. The recurrent part stays in float32, since
its rounding errors would accumulate over time. Outputs are converted back to float32, in which all
distributions and losses are computed.
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
_MIN_CNN_DEPTH = 24  # smaller models gain little or nothing from bfloat16


def resolve_precision(config: TrainingConfig, device: torch.device | str) -> TrainingConfig:
    """The settings with precision "auto" resolved for this model on this machine."""
    if config.precision != "auto":
        return config
    on_cpu = torch.device(device).type == "cpu"
    is_faster = on_cpu and config.model.cnn_depth >= _MIN_CNN_DEPTH and fast_bfloat16()
    return config.override({"precision": "bfloat16" if is_faster else "float32"})


def fast_bfloat16() -> bool:
    """Whether this CPU has instructions for matrix products in bfloat16."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def set_up(model: nn.Module, device: torch.device, precision: str, *, compiled: bool) -> None:
    """Set the precision and compilation of a model; weights and their names do not change."""
    for part in _parts(model):
        if precision in DTYPES:
            part.forward = _lowered(part.forward, device.type, DTYPES[precision])
        if compiled:
            _require_compiler(device)
            part.compile(backend=BACKEND)


def make_scaler(device: torch.device, precision: str) -> torch.amp.GradScaler | None:
    """A scaler of the loss for float16, in which small gradients underflow; None otherwise."""
    if precision != "float16":
        return None
    # The loss is a sum over pixels, whose gradients are large from the first update on. Torch's
    # default, 65536, would skip a dozen updates until the scale is low enough.
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
            "torch.compile needs a C++ compiler for the CPU, and none was found.",
            "Install one (on Debian: apt-get install g++), or train without compile.",
        )
