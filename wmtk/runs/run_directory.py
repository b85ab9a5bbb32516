"""A run directory: settings, checkpoints, metrics and provenance of one training run.

run.json        kind, spaces, task, data and version of the code, with a checksum; not changed later
config.yaml     the resolved settings, with a checksum
command.txt     the command lines that started and resumed the run
metrics.jsonl, tensorboard/, checkpoints/, images/, videos/, report/
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wmtk.datasets.storage import atomic
from wmtk.errors import RunError, WmtkError
from wmtk.runs.checkpoint import Checkpoints
from wmtk.runs.config_file import dump_config, load_config
from wmtk.runs.records import FORMAT, RunRecord, TrainingState
from wmtk.runs.training_config import TrainingConfig
from wmtk.version import code_version


class Run:
    """An existing run directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path = atomic.absolute_path(path)
        file = path / "run.json"
        if not path.is_dir() or not os.path.lexists(file):
            raise RunError(
                f"{path} is not a run directory: it has no run.json.",
                _not_a_run(path),
            )
        self._record, content = RunRecord.open(file)
        self.about: Mapping[str, Any] = content
        self.checkpoints = Checkpoints(path / "checkpoints")

    def __repr__(self) -> str:
        try:
            step: object = self.step
        except WmtkError:
            step = "damaged"
        return f"Run({str(self.path)!r}, kind={self.kind!r}, step={step}, task={self.task!r})"

    @classmethod
    def create(cls, path: Path, kind: str, config: TrainingConfig, about: Mapping[str, Any]) -> Run:
        """Create a run directory atomically; raises RunError if the path exists."""
        path = atomic.absolute_path(path)
        cls.require_vacant(path)
        document = atomic.with_checksum(
            {
                "format": FORMAT,
                "kind": kind,
                "created": atomic.timestamp(),
                "code_version": code_version(),
                "sealed_config": True,
                **about,
            }
        )
        with atomic.staged(path) as folder, atomic.translate_os_errors(path):
            folder.mkdir()
            atomic.write_file(folder / "config.yaml", dump_config(config))
            atomic.write_file(folder / "run.json", atomic.json_bytes(document, indent=1))
            atomic.sync(folder)
        return cls(path)

    @staticmethod
    def require_vacant(path: Path) -> None:
        """Raise RunError if a path exists and is not an empty folder, or is inside of a dataset."""
        path = atomic.absolute_path(path)
        inside = next((p for p in path.parents if (p / "zarr.json").is_file()), None)
        if inside is not None:
            message = f"{path} is inside of the dataset {inside}."
            raise RunError(message, "Choose a path outside of the dataset.")
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
        hint = "Pass resume=True to continue it, or choose another path."
        if not (path / "run.json").exists():
            hint = "It is not a run directory. Choose another path."
        raise RunError(f"{path} exists already.", hint)

    @property
    def kind(self) -> str:
        return str(self.about["kind"])

    @property
    def task(self) -> str:
        """The name of the run's task; empty if its data has none."""
        env: Mapping[str, Any] = self.about.get("env", {})
        return str(env.get("task") or env.get("env_id") or "")

    @property
    def has_actor(self) -> bool:
        """Whether the checkpoints contain a policy."""
        return self.kind in ("policy", "online")

    @property
    def step(self) -> int:
        """The number of updates of the newest checkpoint."""
        return self.checkpoints.step_of("latest") or 0

    def state(self) -> TrainingState | None:
        """The state of training in the newest checkpoint; None before the first one."""
        return self.checkpoints.training_state() if self.step else None

    @property
    def settings(self) -> TrainingConfig:
        """The settings in config.yaml."""
        return load_config(self.path / "config.yaml", has_checksum=self._record.sealed_config)

    def config(self) -> dict[str, Any]:
        """The settings as plain data."""
        return self.settings.model_dump(mode="json")

    def update_config(self, config: TrainingConfig) -> dict[str, tuple[Any, Any]]:
        """Replace the settings in config.yaml; the settings stored in checkpoints do not change.

        Returns the old and the new value of each setting that changes, by dotted name.
        """
        changed = self.settings.diff(config)
        if changed:
            with atomic.translate_os_errors(self.path):
                atomic.replace_file(self.path / "config.yaml", dump_config(config))
        return changed

    def append_command(self) -> None:
        """Add the command line of this process to command.txt."""
        with (
            atomic.translate_os_errors(self.path),
            atomic.open_to_append(self.path / "command.txt") as file,
        ):
            file.write(f"{atomic.timestamp()}  {shlex.join(sys.argv)}\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Prevent other processes from training in the same directory."""
        with exclusive_lock(self.path):
            self.checkpoints.remove_unfinished()
            atomic.remove_staged(self.path)
            yield


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a run directory; raise if another process holds it."""
    with atomic.FolderLock(path, exclusive=True) as granted:
        if not granted:
            raise RunError(
                f"Another process is training in {path}.",
                "Wait until it has finished, or choose another directory.",
            )
        yield


def _not_a_run(path: Path) -> str:
    """The hint for a path that is not a run directory."""
    if (path / "zarr.json").is_file():
        return "It is a dataset. Give the run directory of a model that was trained on it."
    return "Pass a run directory, which training functions and commands write."
