"""D4RL-style HDF5 files."""

from wmtk.datasets.convert.d4rl.transitions import ALIGNMENT, read, recognizes, write

__all__ = ["ALIGNMENT", "read", "recognizes", "write"]
