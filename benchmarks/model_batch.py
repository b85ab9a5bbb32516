"""The batch that all contenders of `model.py` get: made up, and the same in every run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

SIZE = 64  # pixels
ENDS = 0.01  # share of the rows at which an episode ends, and another begins in the next


@dataclass(frozen=True)
class Shape:
    """B windows of L rows, with A actions to choose from."""

    B: int
    L: int
    A: int

    def __str__(self) -> str:
        return f"B = {self.B}, L = {self.L}"


def write(path: Path, shape: Shape) -> Path:
    """Noise as frames: what they show makes no difference to the time."""
    draw = np.random.default_rng(0)
    B, L, A = shape.B, shape.L, shape.A
    terminal = draw.random((B, L)) < ENDS
    is_first = np.zeros_like(terminal)
    # One contender carries its state over from batch to batch, the others begin with zeros: if all
    # windows begin an episode, that is the same.
    is_first[:, 0] = True
    is_first[:, 1:] = terminal[:, :-1]
    action = np.eye(A, dtype=np.float32)[draw.integers(A, size=(B, L))]
    np.savez(
        path,
        image=draw.integers(256, size=(B, L, SIZE, SIZE, 1), dtype=np.uint8),
        action=action * ~is_first[..., None],
        reward=draw.standard_normal((B, L), dtype=np.float32),
        terminal=terminal,
        is_first=is_first,
    )
    return path
