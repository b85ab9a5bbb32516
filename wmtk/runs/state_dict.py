"""Tensors of a checkpoint: weights, optimizer moments, states of random-number generators.

Loading checks names, shapes and dtypes, and that all numbers are finite.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from wmtk.errors import CheckpointError


@contextmanager
def checkpoint_errors(path: Path) -> Iterator[None]:
    """Add the path of a checkpoint to errors about its content."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error.message}", error.hint) from error


def module_state(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """A module's weights under a prefix."""
    return {f"{prefix}/{name}": value for name, value in module.state_dict().items()}


def load_module_state(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load a module's weights from the tensors under a prefix."""
    start = f"{prefix}/"
    require_shapes(prefix, module, {name: tuple(value.shape) for name, value in tensors.items()})
    current = module.state_dict()
    for name, value in current.items():
        _require_numbers(f"{start}{name}", tensors[f"{start}{name}"], value.dtype)
    module.load_state_dict({name: tensors[f"{start}{name}"] for name in current})


def require_shapes(prefix: str, module: nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless the tensors under a prefix have the names and shapes of a module."""
    start = f"{prefix}/"
    saved = {n.removeprefix(start): shape for n, shape in shapes.items() if n.startswith(start)}
    expected = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    for name in dict.fromkeys([*expected, *saved]):
        if saved.get(name) != expected.get(name):
            sizes = [x.get(name, "missing") for x in (saved, expected)]
            raise CheckpointError(
                f"The saved weights do not match the settings: {start}{name} is {sizes[0]} in the "
                f"checkpoint and {sizes[1]} in the model.",
                "Use the settings that the run was created with; sizes cannot change.",
            )


def _require_numbers(name: str, saved: Tensor, dtype: torch.dtype) -> None:
    """Raise unless a saved tensor has this dtype and only finite numbers."""
    if saved.dtype != dtype:
        raise CheckpointError(f"{name} is {saved.dtype} in the checkpoint, not {dtype}.", _OTHER)
    if not torch.isfinite(saved).all():
        raise CheckpointError(f"{name} is not finite in the checkpoint.", _OTHER)


_OTHER = "Continue from another checkpoint, or start a new run."


def optimizer_state(prefix: str, adam: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's moments and step counts, by the position of their parameter."""
    return {
        f"{prefix}/{index}/{name}": value
        for index, entry in adam.state_dict()["state"].items()
        for name, value in entry.items()
    }


def load_optimizer_state(
    prefix: str, adam: torch.optim.Adam, tensors: Mapping[str, Tensor]
) -> None:
    """Load the moments of all parameters; none if they were saved before the first update."""
    parameters = [p for group in adam.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(f"{prefix}/"):
            number, _, name = key.removeprefix(f"{prefix}/").partition("/")
            index = int(number) if re.fullmatch("[0-9]{1,9}", number) else len(parameters)
            if index >= len(parameters) or name not in _MOMENTS:
                raise CheckpointError(f"{key} in the checkpoint matches no parameter.", _OTHER)
            shape = () if name == "step" else tuple(parameters[index].shape)
            if tuple(value.shape) != shape:
                raise CheckpointError(f"{key} has the wrong shape in the checkpoint.", _OTHER)
            _require_numbers(key, value, torch.float32)
            if name != "exp_avg" and (value < 0).any():
                raise CheckpointError(f"{key} is negative in the checkpoint.", _OTHER)
            state.setdefault(index, {})[name] = value
    for index in range(len(parameters)) if state else []:
        if missing := [name for name in _MOMENTS if name not in state.get(index, {})]:
            raise CheckpointError(
                f"{prefix}/{index}/{missing[0]} is not in the checkpoint.", _OTHER
            )
    adam.load_state_dict({"state": state, "param_groups": adam.state_dict()["param_groups"]})


_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def load_count(name: str, tensors: Mapping[str, Tensor]) -> int:
    """Load a number of updates."""
    count = tensors.get(name)
    if count is None or count.dtype != torch.int64 or count.shape != () or count < 0:
        raise CheckpointError(f"{name} in the checkpoint is not a number of updates.", _OTHER)
    return int(count)


def rng_state() -> dict[str, Tensor]:
    """The states of torch's generators, which are the only ones that training uses."""
    states = {"rng/cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"rng/cuda/{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    if torch.backends.mps.is_available():
        states["rng/mps"] = torch.mps.get_rng_state()
    return states


def load_rng_state(tensors: Mapping[str, Tensor]) -> None:
    """Restore the states of torch's generators."""
    setters = {"rng/cpu": torch.set_rng_state}
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            if f"rng/cuda/{index}" in tensors:
                setters[f"rng/cuda/{index}"] = partial(torch.cuda.set_rng_state, device=index)
    if torch.backends.mps.is_available() and "rng/mps" in tensors:
        setters["rng/mps"] = torch.mps.set_rng_state
    for name, restore in setters.items():
        if name not in tensors:
            raise CheckpointError(f"{name} is not in the checkpoint.", _OTHER)
        try:
            restore(tensors[name])
        except (RuntimeError, TypeError) as error:
            raise CheckpointError(
                f"{name} in the checkpoint is not the state of a generator.", _OTHER
            ) from error


@contextmanager
def fork_rng(seed: int | None = 0) -> Iterator[None]:
    """Restore torch's random-number generators after the block; `seed` seeds them for it."""
    state = rng_state()
    if seed is not None:
        torch.manual_seed(seed)
    try:
        yield
    finally:
        load_rng_state(state)
