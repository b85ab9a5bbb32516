"""Batches of a dataset as tensors for a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.datasets import Batch
from wmtk.errors import ConfigError
from wmtk.models.world_model import Inputs
from wmtk.spaces import ArraySpec


class ActionCodec:
    """Actions as the model sees them: one-hot where they are discrete, numbers otherwise."""

    def __init__(self, spec: ArraySpec) -> None:
        self.spec = spec
        if spec.kind == "discrete":
            self.sizes = [spec.n]
        elif spec.kind == "multi_discrete":
            self.sizes = (spec.bound("high") - spec.bound("low") + 1).ravel().tolist()
        else:
            self.sizes = []
        self.size = sum(self.sizes) if self.sizes else spec.numbers
        if self.size > 4096:
            raise ConfigError(f"{self.size} action values are more than a model can take.")

    def encode(self, action: NDArray[Any]) -> Tensor:
        """(B, T, …) → (B, T, A) float32. Row 0 of an episode, a zero action, is what it is."""
        lead = action.shape[:2]
        if not self.sizes:
            return torch.from_numpy(action.reshape(*lead, -1).astype(np.float32))
        offsets = np.cumsum([0, *self.sizes[:-1]])
        values = (action - self.spec.bound("low")).reshape(*lead, -1)
        index = torch.from_numpy((values.clip(min=0) + offsets).astype(np.int64))
        return torch.zeros(*lead, self.size).scatter_(-1, index, 1.0)


def to_inputs(batch: Batch, actions: ActionCodec, device: torch.device) -> Inputs:
    """The batch on a device; a window that starts inside an episode keeps its first action."""
    return Inputs(
        obs={key: torch.from_numpy(rows).to(device) for key, rows in batch.obs.items()},
        action=actions.encode(batch.action).to(device),
        reward=torch.from_numpy(batch.reward).to(device),
        terminal=torch.from_numpy(batch.terminated).to(device),
        is_first=torch.from_numpy(batch.is_first).to(device),
        mask=torch.from_numpy(batch.mask).to(device),
    )
