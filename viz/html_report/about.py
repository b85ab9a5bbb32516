"""Where a report comes from: the run, its training, the dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmtk.datasets import Dataset


@dataclass(frozen=True)
class About:
    """All that a report says besides what the model does."""

    name: str  # of the run
    run: str  # its path, as it was given
    kind: str
    update: int
    hash: str  # of the weights
    facts: Mapping[str, Any]  # run.json
    config: str  # config.yaml
    commands: str  # command.txt
    history: Sequence[Mapping[str, Any]]  # metrics.jsonl
    dataset: Dataset
    held_out: str
    seed: int
    made: str  # when the report was made
    command: str  # that made it
    version: str  # of the code that made it
