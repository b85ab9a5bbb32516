"""The run, the dataset and the command of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmtk.datasets import Dataset


@dataclass(frozen=True)
class ReportInfo:
    """Provenance of a report: everything in it that is not computed from the model."""

    name: str  # of the run
    run: str  # path of the run, as given
    kind: str
    update: int
    hash: str  # of the weights
    run_json: Mapping[str, Any]
    config: str  # text of config.yaml
    commands: str  # text of command.txt
    history: Sequence[Mapping[str, Any]]  # rows of metrics.jsonl
    dataset: Dataset
    held_out: str  # description of the episodes
    seed: int
    created: str  # time of the report
    command: str  # that created the report
    version: str  # of the code that created the report
