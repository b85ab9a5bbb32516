"""Inference with trained models: NumPy arrays in, NumPy arrays out."""

from importlib.util import find_spec

from wmtk.errors import MissingDependencyError


def require_packages(purpose: str) -> None:
    """Raise `MissingDependencyError` unless the packages of the extra `train` are installed."""
    for package in ("torch", "safetensors", "tensorboard", "yaml"):
        try:
            is_installed = find_spec(package) is not None
        except ValueError:  # sys.modules[package] is None
            is_installed = False
        if not is_installed:
            raise MissingDependencyError(package, "train", purpose)
