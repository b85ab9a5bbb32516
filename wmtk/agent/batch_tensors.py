"""Batches of a dataset as tensors for a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wmtk.datasets import Batch, Episode
from wmtk.errors import ConfigError, SchemaMismatchError
from wmtk.models.world_model import Inputs
from wmtk.observations import ObsCodec
from wmtk.reprs import brief
from wmtk.spaces import ArraySpec


class ActionCodec:
    """Converts actions of a space to inputs of a model, and the actions of an actor back.

    Discrete actions are one-hot. Numbers with bounds are scaled to [−1, 1].
    """

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
            raise ConfigError(f"{self.size} action values exceed the maximum of 4096.")
        low, high = (spec.bound(side).ravel().astype(np.float64) for side in ("low", "high"))
        bounded = np.isfinite(low) & np.isfinite(high) & (low < high) & (spec.kind == "box")
        self._middle, self._half = np.zeros(spec.numbers), np.ones(spec.numbers)
        self._middle[bounded] = (low[bounded] + high[bounded]) / 2
        self._half[bounded] = (high[bounded] - low[bounded]) / 2

    def __repr__(self) -> str:
        return f"ActionCodec({brief(str(self.spec))}, size={self.size})"

    def encode(self, action: NDArray[Any]) -> Tensor:
        """(B, T, …) → (B, T, A) float32. The action of row 0 of an episode is zero."""
        lead = action.shape[:2]
        if not self.sizes:
            numbers = (action.reshape(*lead, -1) - self._middle) / self._half
            return torch.from_numpy(numbers.astype(np.float32))
        offsets = np.cumsum([0, *self.sizes[:-1]])
        values = (action - self.spec.bound("low")).reshape(*lead, -1)
        if (values >= np.array(self.sizes)).any():
            raise SchemaMismatchError(
                f"Actions up to {action.max()} exceed {self.spec}, the action space of the model.",
                "Use data of the task that the model was trained on.",
            )
        index = torch.from_numpy((values.clip(min=0) + offsets).astype(np.int64))
        return torch.zeros(*lead, self.size).scatter_(-1, index, 1.0)

    def decode(self, action: Tensor) -> NDArray[Any]:
        """Actions of an actor (N, A) → actions of the environment (N, …)."""
        spec, values = self.spec, action.detach().cpu().numpy().astype(np.float64)
        low, high = spec.bound("low"), spec.bound("high")
        decoded: NDArray[Any]
        if self.sizes:
            parts = np.split(values, np.cumsum(self.sizes)[:-1], -1)
            decoded = np.stack([part.argmax(-1) for part in parts], -1) + low.ravel()
        elif spec.kind == "multi_binary":
            decoded = values > 0.5
        else:
            decoded = np.clip(values * self._half + self._middle, low.ravel(), high.ravel())
        return decoded.astype(spec.dtype).reshape(len(values), *spec.shape)


def to_inputs(
    batch: Batch, observations: ObsCodec, actions: ActionCodec, device: torch.device
) -> Inputs:
    """The batch as tensors. Windows that start inside an episode include their first action."""
    return Inputs(
        obs={key: to_tensor(rows, device) for key, rows in observations(batch.obs).items()},
        action=actions.encode(batch.action).to(device),
        reward=to_tensor(batch.reward, device),
        terminal=to_tensor(batch.terminated, device),
        is_first=to_tensor(batch.is_first, device),
        mask=to_tensor(batch.mask, device),
    )


def whole_episode(episode: Episode) -> Batch:
    """An episode as a batch of one window."""
    arrays = {path: rows[None] for path, rows in episode.arrays().items()}
    first = np.arange(len(episode.reward))[None] == 0
    zero = np.zeros(1, np.int64)
    return Batch(
        obs={key: arrays[f"obs/{key}"] for key in episode.obs},
        action=arrays["action"],
        reward=arrays["reward"].astype(np.float32),
        terminated=arrays["terminated"],
        truncated=arrays["truncated"],
        is_first=first,
        mask=np.ones_like(first),
        info={key: arrays[f"info/{key}"] for key in episode.info},
        source=zero,
        episode=zero,
        start=zero,
        step=0,
        versions=(),
    )


def to_tensor(rows: NDArray[Any], device: torch.device) -> Tensor:
    # Some devices have no 64-bit floats.
    narrow = rows.astype(np.float32) if rows.dtype == np.float64 else rows
    return torch.from_numpy(np.ascontiguousarray(narrow)).to(device)
