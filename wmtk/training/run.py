"""A run directory: everything about one training, in files that people and programs can read.

run.json        what kind of run, its spaces, task, data and code: written once, sealed
config.yaml     the resolved settings
command.txt     how it was started, each time
metrics.jsonl, tensorboard/, checkpoints/, videos/, report/
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from wmtk.config import Config
from wmtk.datasets import durable
from wmtk.errors import RunError
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
        self.about: Mapping[str, Any] = durable.unsealed(durable.parse(data, file), file)
        if self.about["format"] > FORMAT:
            raise RunError(f"{path} was made by a newer wmtk.", "pip install --upgrade wmtk")
        self.checkpoints = Checkpoints(path / "checkpoints")

    @classmethod
    def create(cls, path: Path, kind: str, config: Config, about: Mapping[str, Any]) -> Run:
        """Make a run directory; one that exists already is refused."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(
                f"{path} exists already.",
                "Pass --resume to go on with it, or choose another --out.",
            )
        document = durable.sealed(
            {
                "format": FORMAT,
                "kind": kind,
                "created": durable.now(),
                "code_version": code_version(),
                **about,
            }
        )
        with durable.writing(path):
            path.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(config.model_dump(), sort_keys=False)
            durable.replace_file(path / "config.yaml", text.encode())
            durable.replace_file(path / "run.json", durable.to_bytes(document, indent=1))
        return cls(path)

    @property
    def kind(self) -> str:
        return str(self.about["kind"])

    def config(self) -> dict[str, Any]:
        """The settings as plain data."""
        values: dict[str, Any] = yaml.safe_load((self.path / "config.yaml").read_text())
        return values

    def note_command(self) -> None:
        """Add the command that is running to command.txt."""
        now = durable.now()
        with (self.path / "command.txt").open("a") as file:
            file.write(f"{now}  {' '.join(sys.argv)}\n")
