"""Minari datasets (HDF5)."""

from wmtk.datasets.convert.minari.reader import ALIGNMENT, locate, read, recognizes
from wmtk.datasets.convert.minari.writer import write

__all__ = ["ALIGNMENT", "locate", "read", "recognizes", "write"]
