"""Replay buffers of Diffusion Policy (zarr v2)."""

from wmtk.datasets.convert.diffusion_policy.replay_buffer import (
    ALIGNMENT,
    read,
    recognizes,
    write,
)

__all__ = ["ALIGNMENT", "read", "recognizes", "write"]
