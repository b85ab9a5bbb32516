"""Checkpoints: written atomically, verified when read, in formats that contain no code.

checkpoints/
  00001000/tensors.safetensors   weights, optimizer moments, random-number states
  00001000/state.json            everything else, and the SHA-256 of the tensors
  00001000-1/                    a second checkpoint of the same update, with other content
  latest, best                   text files with the name of a checkpoint
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from wmtk.datasets.storage import atomic
from wmtk.errors import CheckpointError, RunError, WmtkError
from wmtk.reprs import brief_repr
from wmtk.runs import tensor_file
from wmtk.runs.records import CheckpointRecord, TrainingState, read_file

KEEP = 3
TENSORS = "tensors.safetensors"
POINTERS = ("latest", "best")
MAX_STATE_BYTES = 2**24
_NAME = re.compile(r"[0-9]{8,15}(-[0-9]{1,6})?")
_FORMER = ".former"  # suffix of the hidden name of a checkpoint while it is replaced
_NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True)
class Checkpoint:
    """Tensors and state after `step` updates."""

    step: int
    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any]
    hash: str  # SHA-256 of the tensors: identifies the weights in provenance
    path: Path  # of its tensors

    __repr__ = brief_repr


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
        """Write a checkpoint, then the pointers to it; returns the hash of its tensors.

        `latest` names a complete checkpoint at all times: a second checkpoint of a step gets
        another name. Content that is stored already is not written again.
        """
        data, document, digest = _content(step, tensors, state)
        with atomic.translate_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            existing = [name for name in self.names() if _step(name) == step]
            name = next((name for name in existing if self._contains(name, document)), None)
            if name is None:
                name = self._next_name(step, existing)
                self._write(name, data, document)
            try:
                # `best` first: `latest` makes the state, with its best loss, effective.
                for pointer in ["best", "latest"] if best else ["latest"]:
                    atomic.replace_file(self.folder / pointer, name.encode())
            except BaseException:
                if name not in {self.pointer(which) for which in POINTERS}:
                    atomic.remove_tree(self.folder / name)
                raise
        self._prune()
        return digest

    def _contains(self, name: str, document: bytes) -> bool:
        """Whether a checkpoint is undamaged and its state.json equals `document`."""
        folder = self.folder / name
        try:
            same = read_file(folder / "state.json", limit=MAX_STATE_BYTES) == document
            if same:
                self._verify(name)
        except WmtkError:
            return False
        return same

    @staticmethod
    def _next_name(step: int, existing: list[str]) -> str:
        name = f"{step:08d}"
        return f"{name}-{_order(existing[-1])[1] + 1}" if existing else name

    def _write(self, name: str, data: bytes, document: bytes) -> None:
        staging = self.folder / f".{name}.tmp"
        try:
            atomic.remove_tree(staging)
            staging.mkdir()
            atomic.write_file(staging / TENSORS, data)
            atomic.write_file(staging / "state.json", document)
            atomic.sync(staging)
            staging.rename(self.folder / name)
        except BaseException:
            atomic.remove_tree(staging)  # frees the space on a full disk
            raise
        atomic.sync(self.folder)

    def replace(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Replace the tensors and the state of a checkpoint under the same name.

        After an interruption, `restore_replaced` restores the former checkpoint.
        """
        data, document, _ = _content(_step(name), tensors, state)
        former = self.folder / f".{name}{_FORMER}"
        with atomic.translate_os_errors(self.folder):
            (self.folder / name).rename(former)
            self._write(name, data, document)
            atomic.remove_tree(former)

    def restore_replaced(self) -> None:
        """Restore checkpoints whose replacement was interrupted."""
        for former in self.folder.glob(f".*{_FORMER}"):
            name = former.name.removeprefix(".").removesuffix(_FORMER)
            if (self.folder / name).exists():
                atomic.remove_tree(former)
            else:
                former.rename(self.folder / name)

    def names(self) -> list[str]:
        """The names of all checkpoints, sorted by step, and within a step by age."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        return sorted((name for name in names if _NAME.fullmatch(name)), key=_order)

    def steps(self) -> list[int]:
        """The updates at which checkpoints were saved."""
        return sorted({_step(name) for name in self.names()})

    def remove_unfinished(self) -> None:
        """Delete unfinished files of killed processes; only for the process that holds the lock."""
        for unfinished in self.folder.glob(".*.tmp"):
            atomic.remove_tree(unfinished)
        atomic.remove_staged(self.folder)

    def _prune(self) -> None:
        """Delete all checkpoints except the newest `keep` and those that a pointer names."""
        newest = {_step(name): name for name in self.names()}
        retained = {newest[step] for step in sorted(newest)[-self.keep :]}
        retained |= {name for which in POINTERS if (name := self.pointer(which)) is not None}
        for name in self.names():
            if name not in retained:
                # Rename first, so that a partly deleted folder does not have a checkpoint's name.
                unfinished = self.folder / f".{name}.tmp"
                atomic.remove_tree(unfinished)
                (self.folder / name).rename(unfinished)
        self.remove_unfinished()

    # --- reading ---

    def pointer(self, which: str) -> str | None:
        """The checkpoint that `latest` or `best` names; None before there is one."""
        path = self.folder / which
        if not os.path.lexists(path):
            # The process was killed between the first checkpoint and the pointer to it.
            return self.names()[-1] if which == "latest" and self.names() else None
        try:
            target = read_file(path, limit=100).decode("ascii", "replace").strip()
        except RunError as error:
            raise CheckpointError(error.message, self._recovery_hint(which)) from error
        if not _NAME.fullmatch(target):
            raise CheckpointError(
                f"{path} does not name a checkpoint: {target!r}.", self._recovery_hint(which)
            )
        return target

    def step_of(self, which: str) -> int | None:
        """The update of the checkpoint that a pointer names; None before there is one."""
        name = self.pointer(which)
        return None if name is None else _step(name)

    def _name(self, which: str) -> str:
        """The checkpoint of a pointer or of a step."""
        if _NUMBER.fullmatch(which):
            names = [name for name in self.names() if _step(name) == int(which)]
            name = names[-1] if names else None
        else:
            name = self.pointer(which) if which in POINTERS else None
            if name is not None and not (self.folder / name).is_dir():
                raise CheckpointError(
                    f"{self.folder / which} names {name}, which is missing.",
                    self._recovery_hint(which),
                )
        if name is None:
            known = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(
                f"{self.folder} has no checkpoint {which!r}.", f"There are: {known}."
            )
        return name

    def document(self, which: str = "latest") -> dict[str, Any]:
        """The content of state.json: step, state, and the hash of the tensors."""
        name = self._name(which)
        try:
            return self._document(name)
        except CheckpointError as error:
            raise CheckpointError(error.message, self._recovery_hint(which, name)) from error

    def training_state(self, which: str = "latest") -> TrainingState:
        """The state of training in a checkpoint."""
        path = self.folder / self._name(which) / "state.json"
        return TrainingState.read(self.document(which)["state"], path, self._recovery_hint(which))

    def shapes(self, which: str = "latest") -> dict[str, tuple[int, ...]]:
        """The shapes of a checkpoint's tensors, by name, without reading the tensors."""
        name = self._name(which)
        try:
            return tensor_file.read_shapes(self.folder / name / TENSORS)
        except CheckpointError as error:
            raise CheckpointError(error.message, self._recovery_hint(which, name)) from error

    def load(self, which: str = "latest") -> Checkpoint:
        """Read a checkpoint by pointer or by step; raises CheckpointError if it is damaged."""
        name = self._name(which)
        try:
            return self.load_name(name)
        except CheckpointError as error:
            raise CheckpointError(error.message, self._recovery_hint(which, name)) from error

    def load_name(self, name: str) -> Checkpoint:
        """Read a checkpoint by its name; raises CheckpointError if it is damaged."""
        document = self._document(name)
        path = self.folder / name / TENSORS
        tensors = tensor_file.read(path, **self._expected(document))
        return Checkpoint(document["step"], tensors, document["state"], document["sha256"], path)

    def _document(self, name: str) -> dict[str, Any]:
        path = self.folder / name / "state.json"
        try:
            record, content = CheckpointRecord.open(path)
        except RunError as error:
            raise CheckpointError(error.message) from error
        if record.step != _step(name):
            raise CheckpointError(f"{path} is of update {record.step}.")
        return content

    @staticmethod
    def _expected(document: Mapping[str, Any]) -> dict[str, Any]:
        return {"sha256": document["sha256"], "size": document.get("bytes")}

    def _verify(self, name: str) -> None:
        document = self._document(name)
        tensor_file.verify(self.folder / name / TENSORS, **self._expected(document))

    def _recovery_hint(self, which: str, damaged: str | None = None) -> str:
        """The hint for a checkpoint that cannot be read."""
        if which == "best":
            return f"Use another one, such as latest. To remove it: rm {self._quoted('best')}"
        for name in reversed(self.names()):
            if name == damaged:
                continue
            try:
                self._verify(name)
            except CheckpointError:
                continue
            if which == "latest":
                return f"Return to another one: echo {name} > {self._quoted('latest')}"
            return f"Use another one, such as {_step(name)}."
        return (
            f"All checkpoints are damaged. To train from the beginning: rm -r "
            f"{shlex.quote(str(self.folder))}, and resume."
        )

    def _quoted(self, name: str) -> str:
        return shlex.quote(str(self.folder / name))


def _content(
    step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
) -> tuple[bytes, bytes, str]:
    """The content of tensors.safetensors and of state.json, and the hash of the tensors."""
    data = save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()})
    digest = hashlib.sha256(data).hexdigest()
    content = {"step": step, "sha256": digest, "bytes": len(data), "state": dict(state)}
    return data, atomic.json_bytes(atomic.with_checksum(content)), digest


def _order(name: str) -> tuple[int, int]:
    """The step of a checkpoint's name, and its number among the checkpoints of this step."""
    step, _, number = name.partition("-")
    return int(step), int(number or 0)


def _step(name: str) -> int:
    return _order(name)[0]
