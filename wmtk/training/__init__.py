"""The training stages: a dataset in, a run directory with a trained model out."""

from importlib.util import find_spec

from wmtk.errors import MissingDependencyError


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # what Python says of a module that was blocked on purpose
        return False


for _package in ("torch", "safetensors", "tensorboard", "yaml"):
    if not _is_there(_package):
        raise MissingDependencyError(_package, "train", "Training")
