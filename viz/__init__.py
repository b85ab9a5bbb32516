"""Evaluation and visualization of datasets, world models and policies.

Each command of `wmtk viz` calls one of the functions below. They take run directories or loaded
models, and datasets or their paths. Functions and modules are imported at first use.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmtk.viz.comparison import compare as compare
    from wmtk.viz.episode_media import sheet as sheet
    from wmtk.viz.episode_media import video as video
    from wmtk.viz.intervention import intervene as intervene
    from wmtk.viz.latent_codes import code_usage as code_usage
    from wmtk.viz.live_page import serve as serve
    from wmtk.viz.model_evaluation import evaluate as evaluate
    from wmtk.viz.policy_returns import returns as returns
    from wmtk.viz.report_file import report as report
    from wmtk.viz.rollout_media import dream as dream
    from wmtk.viz.rollout_media import open_loop as open_loop
    from wmtk.viz.rollout_media import reconstructions as reconstructions

_MODULES = {
    "code_usage": "latent_codes",
    "compare": "comparison",
    "dream": "rollout_media",
    "evaluate": "model_evaluation",
    "intervene": "intervention",
    "open_loop": "rollout_media",
    "reconstructions": "rollout_media",
    "report": "report_file",
    "returns": "policy_returns",
    "serve": "live_page",
    "sheet": "episode_media",
    "video": "episode_media",
}

__all__ = list(_MODULES)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A function or a module of this package, imported at first use."""
        if name in _MODULES:
            return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        if name in _submodules():
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_MODULES, *_submodules()})


def _submodules() -> set[str]:
    return {module.name for module in iter_modules(__path__)}
