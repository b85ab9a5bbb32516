"""Which episodes of a dataset a model was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmtk.datasets import Dataset, split
from wmtk.errors import UsageError

USUAL_FRACTION = 0.1  # what training holds out unless told otherwise


@dataclass(frozen=True)
class HeldOut:
    episodes: NDArray[np.bool_]  # a flag for each episode of the dataset
    note: str  # what they are, in words


def held_out(dataset: Dataset, about: Mapping[str, Any], folder: Path | None = None) -> HeldOut:
    """The episodes that a run held out of its training, or all if it never saw the dataset.

    `about` is what the run's directory, `folder`, says of it: the datasets and the share that was
    held out. A dataset inside of the directory is what an online run has learned from.
    """
    table = dataset.episodes
    everything = np.ones(len(table), bool)
    if folder is not None and dataset.path.resolve().parent == folder.resolve():
        return HeldOut(everything, "all episodes: the agent has learned from them")
    if dataset.id not in {item["id"] for item in about.get("data", [])}:
        return HeldOut(everything, "all episodes: the model was not trained on this dataset")
    fraction = float(about.get("val_fraction", USUAL_FRACTION))
    if not fraction:
        return HeldOut(everything, "all episodes: the model was trained on them, none was held out")
    return HeldOut(split(fraction, held_out=True)(table), "episodes held out of training")


def held_out_of_all(name: str, held: Sequence[HeldOut]) -> NDArray[np.bool_]:
    """The episodes of a dataset that all models may be measured on; refuses if there are none."""
    candidates = np.logical_and.reduce([each.episodes for each in held])
    if not candidates.any():
        raise UsageError(
            f"{name} has no held-out episode: training used all of them.",
            "Give another dataset of the same task.",
        )
    return np.asarray(candidates)
