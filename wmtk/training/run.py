"""A run directory: everything about one training, in files that people and programs can read.

run.json        what kind of run, its spaces, task, data and code: written once, sealed
config.yaml     the resolved settings
command.txt     how it was started, each time
metrics.jsonl, tensorboard/, checkpoints/, pictures/, videos/, report/
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from wmtk.config import Config
from wmtk.datasets import durable
from wmtk.errors import CorruptDatasetError, RunError
from wmtk.training.checkpoint import Checkpoints
from wmtk.version import code_version

FORMAT = 1


class Run:
    """An existing run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        file = path / "run.json"
        try:
            data = durable.read_bytes(file)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RunError(
                f"{path} is not a run directory: it has no run.json.",
                "Give the folder that a training command wrote to with --out.",
            ) from error
        try:
            self.about: Mapping[str, Any] = durable.unsealed(durable.parse(data, file), file)
        except CorruptDatasetError as error:
            raise RunError(f"{file} was altered.", "Copy the run directory again.") from error
        if self.about["format"] > FORMAT:
            raise RunError(f"{path} was made by a newer wmtk.", "pip install --upgrade wmtk")
        self.checkpoints = Checkpoints(path / "checkpoints")

    @classmethod
    def create(cls, path: Path, kind: str, config: Config, about: Mapping[str, Any]) -> Run:
        """Make a run directory, whole or not at all; one that exists already is refused."""
        cls.require_vacant(path)
        document = durable.sealed(
            {
                "format": FORMAT,
                "kind": kind,
                "created": durable.now(),
                "code_version": code_version(),
                **about,
            }
        )
        with durable.staged(path) as folder, durable.writing(path):
            folder.mkdir()
            durable.write_file(folder / "config.yaml", _yaml(config))
            durable.write_file(folder / "run.json", durable.to_bytes(document, indent=1))
            durable.sync(folder)
        return cls(path)

    @staticmethod
    def require_vacant(path: Path) -> None:
        """Refuse a path at which there is something already."""
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
        hint = "Pass --resume to go on with it, or choose another --out."
        if not (path / "run.json").exists():
            hint = "It is no run directory. Choose another --out."
        raise RunError(f"{path} exists already.", hint)

    @property
    def kind(self) -> str:
        return str(self.about["kind"])

    @property
    def step(self) -> int:
        """How many updates the newest checkpoint has seen."""
        return int(self.checkpoints.pointer("latest") or 0)

    def config(self) -> dict[str, Any]:
        """The settings as plain data."""
        values: dict[str, Any] = yaml.safe_load((self.path / "config.yaml").read_text())
        return values

    def change_config(self, config: Config) -> None:
        """Go on with other settings; the checkpoints remember those that they were made with."""
        with durable.writing(self.path):
            durable.replace_file(self.path / "config.yaml", _yaml(config))

    def note_command(self) -> None:
        """Add the command that is running to command.txt."""
        with durable.writing(self.path), (self.path / "command.txt").open("a") as file:
            file.write(f"{durable.now()}  {shlex.join(sys.argv)}\n")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training in the same directory."""
        with durable.lock_held(self.path, exclusive=True) as granted:
            if not granted:
                raise RunError(
                    f"Another process is training in {self.path}.",
                    "Wait until it has finished, or choose another --out.",
                )
            yield


def _yaml(config: Config) -> bytes:
    return yaml.safe_dump(config.model_dump(), sort_keys=False).encode()
