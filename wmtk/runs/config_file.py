"""config.yaml: the settings of a run, with a checksum in its first line.

Settings and checksum are in the same file, so that they change atomically.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import yaml

from wmtk.errors import ConfigError, RunError
from wmtk.runs.records import HINT, read_file
from wmtk.runs.training_config import TrainingConfig

_PREFIX = b"# sha256 "
_SUFFIX = b": change settings with --resume --set NAME=VALUE, not in this file\n"


def dump_config(config: TrainingConfig) -> bytes:
    """The content of config.yaml."""
    return with_checksum(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False).encode())


def with_checksum(body: bytes) -> bytes:
    """The content of config.yaml with its checksum in the first line."""
    return _PREFIX + hashlib.sha256(body).hexdigest().encode() + _SUFFIX + body


def load_config(path: Path, *, has_checksum: bool) -> TrainingConfig:
    """Read the settings in a file, which has no checksum in older runs."""
    try:
        return TrainingConfig.build(read_settings(path, has_checksum=has_checksum))
    except ConfigError as error:
        raise RunError(f"{path}: {error.message}", HINT) from error


def read_settings(path: Path, *, has_checksum: bool) -> dict[str, Any]:
    """The settings in a file as plain data, not validated."""
    data = read_file(path)
    start, _, body = data.partition(b"\n")
    if (has_checksum or start.startswith(_PREFIX)) and data != with_checksum(body):
        raise RunError(
            f"{path} was edited: its checksum is wrong.",
            "Undo the edit, or restore the file from a copy of the run directory. To train on "
            "with other settings, pass --resume --set NAME=VALUE.",
        )
    try:
        values = yaml.load(data, _PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:200] or "it is nested too deeply"
        raise RunError(f"{path} is not valid YAML: {what}.", HINT) from error
    if not isinstance(values, dict):
        raise RunError(f"{path} contains no settings.", HINT)
    return values


class _PlainLoader(yaml.SafeLoader):
    """Rejects YAML aliases, with which a few bytes can expand to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references are not allowed")
        return super().compose_node(parent, index)
