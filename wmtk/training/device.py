"""Where tensors live, and how the processor is set up for them."""

from __future__ import annotations

import torch

from wmtk.errors import UsageError


def choose_device(name: str) -> str:
    """`auto` takes the best there is; anything else must exist."""
    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"The device {name!r} cannot be used: {str(error).splitlines()[0]}",
            "Use auto, cpu, cuda, cuda:N or mps; `wmtk doctor` shows what there is.",
        ) from error
    return name
