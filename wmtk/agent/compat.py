"""Checkpoints of earlier versions of wmtk."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from wmtk.models.world_model import WorldModel
from wmtk.runs.state_dict import load_module_state, load_optimizer_state

_BIAS, _NORM = "rssm.cell.linear.bias", "rssm.cell.norm.weight"
_ADAM = "adam/model/"


def restore_world_model(
    model: WorldModel, tensors: Mapping[str, Tensor], adam: torch.optim.Adam | None = None
) -> None:
    """Load the weights of a world model and, with `adam`, the moments of its optimizer."""
    tensors = with_cell_bias(model, tensors)
    load_module_state("model", model, tensors)
    if adam is not None:
        load_optimizer_state("adam/model", adam, tensors)


def with_cell_bias(model: WorldModel, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Add zeros for the bias before the GRU's layer norm, which models of early versions lack.

    Its moments in Adam are zeros as well. Moments are saved by the position of their parameter, so
    the positions of later parameters increase by one.
    """
    if f"model/{_BIAS}" in tensors or f"model/{_NORM}" not in tensors:
        return tensors
    zeros = torch.zeros_like(tensors[f"model/{_NORM}"])
    position = [name for name, _ in model.named_parameters()].index(_BIAS)
    completed = {f"model/{_BIAS}": zeros}
    for key, value in tensors.items():
        if key.startswith(_ADAM):
            index, _, name = key.removeprefix(_ADAM).partition("/")
            if index.isdecimal():  # other keys raise when the optimizer is restored
                key = f"{_ADAM}{int(index) + (int(index) >= position)}/{name}"
        completed[key] = value
    step = tensors.get(f"{_ADAM}{position}/step")
    if step is not None:  # all parameters share it
        moments = {"step": step, "exp_avg": zeros, "exp_avg_sq": zeros}
        completed |= {f"{_ADAM}{position}/{name}": value.clone() for name, value in moments.items()}
    return completed
