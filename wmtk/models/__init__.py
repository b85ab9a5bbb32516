"""World model, actor and critic of DreamerV2; `kernels` has faster versions of some operations."""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

_MODULES = sorted(module.name for module in iter_modules(__path__))

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A module of this package, imported on first access."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return _MODULES
