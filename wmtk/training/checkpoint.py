"""Checkpoints: whole or not there at all, verified when read, and nothing that can run code.

checkpoints/
  00001000/tensors.safetensors   weights, optimiser moments, random-number states
  00001000/state.json            everything else, and the SHA-256 of the tensors
  latest, best                   text files with the name of a checkpoint
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from wmtk.datasets import durable
from wmtk.errors import CheckpointError, CorruptDatasetError

KEEP = 3


@dataclass(frozen=True)
class Checkpoint:
    """What was saved at a step."""

    step: int
    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]
    hash: str  # of the tensors: names the weights in the provenance of what they make


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, folder: Path, keep: int = KEEP) -> None:
        self.folder = folder
        self.keep = keep

    def save(
        self,
        step: int,
        tensors: Mapping[str, Tensor],
        state: Mapping[str, Any],
        *,
        best: bool = False,
    ) -> str:
        """Write a checkpoint, then move the pointers to it; returns the hash of its tensors."""
        name = f"{step:08d}"
        data = save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
        digest = hashlib.sha256(data).hexdigest()
        document = durable.sealed({"step": step, "sha256": digest, "state": dict(state)})
        staging = self.folder / f".{name}.tmp"
        with durable.writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            durable.remove_tree(staging)
            staging.mkdir()
            durable.write_file(staging / "tensors.safetensors", data)
            durable.write_file(staging / "state.json", durable.to_bytes(document))
            durable.sync(staging)
            durable.remove_tree(self.folder / name)
            staging.rename(self.folder / name)
            durable.sync(self.folder)
            for pointer in ["latest", "best"] if best else ["latest"]:
                durable.replace_file(self.folder / pointer, name.encode())
        self._prune()
        return digest

    def _names(self) -> list[str]:
        return sorted(p.name for p in self.folder.glob("[0-9]*") if p.name.isdigit())

    def steps(self) -> list[int]:
        """The updates that there are checkpoints of."""
        return [int(name) for name in self._names()]

    def _prune(self) -> None:
        """Delete all but the newest few and those that a pointer names, and what a kill left."""
        for unfinished in self.folder.glob(".*.tmp"):
            durable.remove_tree(unfinished)
        names = self._names()
        wanted = set(names[-self.keep :]) | {self.pointer("latest"), self.pointer("best")}
        for name in names:
            if name not in wanted:
                durable.remove_tree(self.folder / name)

    def pointer(self, name: str) -> str | None:
        path = self.folder / name
        if not path.exists():
            return None
        target = path.read_text().strip()
        if not target.isdigit():
            raise CheckpointError(f"{path} names no checkpoint: {target!r}.", "Delete the file.")
        return target

    def _folder(self, which: str) -> Path:
        name = f"{int(which):08d}" if which.isdigit() else self.pointer(which)
        if name is None or not (self.folder / name).is_dir():
            known = self._names() or ["none"]
            raise CheckpointError(
                f"{self.folder} has no checkpoint {which!r}.", f"There are: {', '.join(known)}."
            )
        return self.folder / name

    def document(self, which: str = "latest") -> dict[str, Any]:
        """What a checkpoint holds besides tensors: step, state, and the hash of the tensors."""
        path = self._folder(which) / "state.json"
        try:
            return durable.unsealed(durable.parse(durable.read_bytes(path), path), path)
        except (OSError, CorruptDatasetError) as error:
            raise self._damaged(path, "is missing or was altered") from error

    def load(self, which: str = "latest") -> Checkpoint:
        """Read a checkpoint by pointer or by step, refusing one that is damaged."""
        document = self.document(which)
        path = self._folder(which) / "tensors.safetensors"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise self._damaged(path, "is missing") from error
        digest = hashlib.sha256(data).hexdigest()
        if digest != document["sha256"]:
            raise self._damaged(path, "was altered: its checksum is wrong")
        return Checkpoint(document["step"], load(data), document["state"], digest)

    def _damaged(self, path: Path, what: str) -> CheckpointError:
        others = [name for name in self._names() if name != path.parent.name]
        hint = "There is no other one."
        if others:
            hint = f"Go back to another one: echo {others[-1]} > {self.folder / 'latest'}"
        return CheckpointError(f"{path} {what}.", hint)


def module_tensors(prefix: str, module: nn.Module) -> dict[str, Tensor]:
    """A module's weights under a prefix."""
    return {f"{prefix}/{name}": value for name, value in module.state_dict().items()}


def restore_module(prefix: str, module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    start = f"{prefix}/"
    saved = {key.removeprefix(start): v for key, v in tensors.items() if key.startswith(start)}
    wanted = module.state_dict()
    for name in dict.fromkeys([*wanted, *saved]):
        if name not in saved or name not in wanted or saved[name].shape != wanted[name].shape:
            sizes = [tuple(x[name].shape) if name in x else "nothing" for x in (saved, wanted)]
            raise CheckpointError(
                f"The saved weights are not of these settings: {start}{name} is {sizes[0]} in the "
                f"checkpoint and {sizes[1]} in the model.",
                "Use the settings that the run was made with; sizes cannot change afterwards.",
            )
    module.load_state_dict(saved)


def optimizer_tensors(prefix: str, adam: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's moments and step counts, by the position of their parameter."""
    return {
        f"{prefix}/{index}/{name}": value
        for index, entry in adam.state_dict()["state"].items()
        for name, value in entry.items()
    }


def restore_optimizer(prefix: str, adam: torch.optim.Adam, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(f"{prefix}/"):
            _, index, name = key.rsplit("/", 2)
            state.setdefault(int(index), {})[name] = value
    adam.load_state_dict({"state": state, "param_groups": adam.state_dict()["param_groups"]})


def random_tensors() -> dict[str, Tensor]:
    """The states of torch's generators; nothing else is drawn from while training."""
    states = {"rng/cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"rng/cuda/{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    if torch.backends.mps.is_available():
        states["rng/mps"] = torch.mps.get_rng_state()
    return states


def restore_random(tensors: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(tensors["rng/cpu"])
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            if f"rng/cuda/{index}" in tensors:
                torch.cuda.set_rng_state(tensors[f"rng/cuda/{index}"], index)
    if torch.backends.mps.is_available() and "rng/mps" in tensors:
        torch.mps.set_rng_state(tensors["rng/mps"])


@contextmanager
def own_randomness(seed: int = 0) -> Iterator[None]:
    """Random numbers of a seed for what must not change those that training draws."""
    before = random_tensors()
    torch.manual_seed(seed)
    try:
        yield
    finally:
        restore_random(before)
