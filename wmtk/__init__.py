"""wmtk, the World Model ToolKit: collect data for world models, train them, look inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmtk.training.loading import load as load

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`wmtk.load`, without importing torch before it is asked for."""
    if name == "load":
        from importlib import import_module

        return import_module("wmtk.training.loading").load
    raise AttributeError(f"module 'wmtk' has no attribute {name!r}")
