"""Replay folders of DreamerV2 (one npz file per episode)."""

from wmtk.datasets.convert.dreamerv2.episode_npz import ALIGNMENT, read, recognizes, write

__all__ = ["ALIGNMENT", "read", "recognizes", "write"]
