"""Conversion of run directories of earlier formats, in place.

Each file is replaced atomically, and the format in run.json changes last: after an interruption the
run still has the earlier format, and a second conversion completes the first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from wmtk.datasets.storage import atomic
from wmtk.errors import CheckpointError, FormerRunError
from wmtk.runs.checkpoint import Checkpoints
from wmtk.runs.config_file import dump_config, read_settings
from wmtk.runs.former_names import FOLDERS, metric_name, rename_settings, tensor_name
from wmtk.runs.metrics_log import FILE as METRICS
from wmtk.runs.records import FORMAT, MAX_METRICS_BYTES, RunRecord, read_file
from wmtk.runs.run_directory import Run, exclusive_lock
from wmtk.runs.training_config import TrainingConfig


def convert_run(
    path: str | os.PathLike[str], on_message: Callable[[str], None] = lambda _: None
) -> bool:
    """Convert a run directory of an earlier format; returns False if it has the present one.

    Settings, tensors and metrics are renamed; numbers do not change. Damaged checkpoints remain
    unchanged, with a message. TensorBoard's files retain the former names.

    Example:
        >>> from wmtk.runs.conversion import convert_run
        >>> convert_run("runs/model")  # trained with the present version
        False
    """
    try:
        Run(path)
        return False
    except FormerRunError:
        pass
    path = atomic.absolute_path(path)
    record = RunRecord.content(path / "run.json")
    with exclusive_lock(path), atomic.translate_os_errors(path):
        config = path / "config.yaml"
        has_checksum = bool(record.get("sealed_config", False))
        settings = rename_settings(read_settings(config, has_checksum=has_checksum))
        content = dump_config(TrainingConfig.build(settings))
        _convert_checkpoints(Checkpoints(path / "checkpoints"), on_message)
        if os.path.lexists(path / METRICS):
            atomic.replace_file(path / METRICS, _converted_metrics(path / METRICS))
        for former, present in FOLDERS.items():
            if (path / former).is_dir() and not os.path.lexists(path / present):
                (path / former).rename(path / present)
        atomic.replace_file(config, content)
        document = atomic.with_checksum({**record, "format": FORMAT, "sealed_config": True})
        atomic.replace_file(path / "run.json", atomic.json_bytes(document, indent=1))
    return True


def _convert_checkpoints(checkpoints: Checkpoints, on_message: Callable[[str], None]) -> None:
    checkpoints.restore_replaced()
    checkpoints.remove_unfinished()
    for name in checkpoints.names():
        try:
            saved = checkpoints.load_name(name)
        except CheckpointError as error:
            on_message(f"{error.message} This checkpoint was not converted.")
            continue
        tensors = {tensor_name(key): tensor for key, tensor in saved.tensors.items()}
        config = TrainingConfig.build(rename_settings(saved.state.get("config", {})))
        state = {**saved.state, "config": config.model_dump(mode="json")}
        if state != saved.state or set(tensors) != set(saved.tensors):
            checkpoints.replace(name, tensors, state)


def _converted_metrics(path: Path) -> bytes:
    """The lines of metrics.jsonl with the present names; damaged lines are unchanged."""
    lines = read_file(path, limit=MAX_METRICS_BYTES).split(b"\n")
    return b"\n".join(_converted_line(line) for line in lines)


def _converted_line(line: bytes) -> bytes:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(values, dict):
        return line
    return json.dumps({metric_name(name): value for name, value in values.items()}).encode()
