"""Makes `v1.zarr` and `v1.json`, what every later version of wmtk must read in the same way.

Run `python tests/golden/make.py FOLDER` to make them anew somewhere; the two in this folder are
never made again. Everything follows from fixed numbers: ids, names and times too.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import secrets
import socket
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.datasets.storage import atomic
from wmtk.spaces import ArraySpec

LENGTHS = [5, 9, 1, 7, 12, 3, 6]  # in steps; the first is evicted, the next three are compacted
SCHEMA = Schema(
    obs={
        "image": ArraySpec("box", (8, 8, 3), "uint8", 0, 255),
        "state": ArraySpec(
            "box", (4,), "float32", (-1.0, -1.0, None, None), (1.0, 1.0, None, None)
        ),
        "robot/arm/joints": ArraySpec("box", (2, 2), "float64"),
        "robot/gripper": ArraySpec("multi_binary", (2,), "int8", 0, 1),
    },
    action=ArraySpec("discrete", (), "int64", 0, 4),
    info={"lives": ArraySpec("discrete", (), "int32", 0, 3)},
    structure={
        "dict": {
            "image": "image",
            "state": "state",
            "robot": {
                "dict": {
                    "arm": {"dict": {"joints": "robot/arm/joints"}},
                    "gripper": "robot/gripper",
                }
            },
        }
    },
)


def episode(number: int) -> Episode:
    """Plain arithmetic, so that no library's random numbers are needed to know the values."""
    t = np.arange(LENGTHS[number] + 1)
    grid = np.arange(8 * 8 * 3).reshape(8, 8, 3)
    action = (t * (number + 2)) % 5
    reward = np.where(t % 3 == 0, 0.25, -1.0) * number + t / 8
    action[0] = reward[0] = 0
    angles = t[:, None, None] / (number + 1) + np.array([[0.0, 0.5], [1.0, 1.5]])
    return Episode(
        obs={
            "image": ((grid // 16 + 3 * t[:, None, None, None] + number) % 256).astype(np.uint8),
            "state": (np.stack([t % 2, -t % 2, t * 0.5, t**2], axis=1)).astype(np.float32),
            "robot/arm/joints": angles,
            "robot/gripper": np.stack([t % 2, (t + number) % 2], axis=1).astype(np.int8),
        },
        action=action,
        reward=reward,
        terminated=number % 3 == 0,
        truncated=number % 3 == 1,  # and the others were cut
        info={"lives": np.maximum(3 - t // 3, 0).astype(np.int32)},
        seed=1000 + number,
        provenance=Provenance(
            env_id="golden/Arithmetic-v1",
            env_kwargs={"size": 8},
            env_versions={"golden": "1.0"},
            policy="random" if number < 4 else "dreamer",
            checkpoint="" if number < 4 else "sha256:0123456789abcdef",
            code_version="0.1.0",
            extra={"note": "λ, 世界"},
        ),
    )


def make(folder: Path) -> Path:
    """Four parts: one compacted from three, three single; a tag, a snapshot, an eviction."""
    root = folder / "v1.zarr"
    with _fixed_surroundings():
        dataset = Dataset.create(
            root,
            SCHEMA,
            env={"id": "golden/Arithmetic-v1", "kwargs": {"size": 8}},
            capacity=1000,
            attributes={"source": {"any": ["thing", 1, None]}},
        )
        with dataset:
            for number in range(4):
                dataset.append(episode(number))
            dataset.evict(sum(LENGTHS[1:4]))
            with mock.patch("wmtk.datasets.storage.compaction.target_steps", return_value=10_000):
                dataset.compact()
            dataset._log.snapshot(dataset._state)
            dataset.append(episode(4))
            dataset.tag("published", note="as in the paper")
            for number in (5, 6):
                dataset.append(episode(number))
        _write_expectations(root, folder / "v1.json")
    return root


def _write_expectations(root: Path, file: Path) -> None:
    with Dataset.open(root) as dataset:
        rows = [
            {
                "number": number,
                "id": episode(number).id,
                "length": LENGTHS[number],
                "return": episode(number).total_reward,
                "terminated": episode(number).terminated,
                "truncated": episode(number).truncated,
                "seed": 1000 + number,
                "last_image_pixel": episode(number).obs["image"][-1, 7, 7].tolist(),
                "last_joints": episode(number).obs["robot/arm/joints"][-1].tolist(),
                "actions": episode(number).action.tolist(),
            }
            for number in range(1, len(LENGTHS))
        ]
        parts = [list(entry.ids) for entry in dataset.parts]
        expectations: dict[str, Any] = {
            "format": 1,
            "version": dataset.version,
            "parts": parts,
            "tags": {"published": [row["id"] for row in rows[:4]]},
            "episodes": rows,
        }
    file.write_text(json.dumps(expectations, indent=1) + "\n")


@contextlib.contextmanager
def _fixed_surroundings() -> Iterator[None]:
    """Names, times and hosts that are the same at every run."""
    tokens = itertools.count(1)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime(2026, 1, 1, tzinfo=tz)

    clock = types.SimpleNamespace(**{**vars(datetime), "datetime": Clock})
    with contextlib.ExitStack() as stack:
        for target, name, value in [
            (secrets, "token_hex", lambda size: f"{next(tokens):0{2 * size}x}"),
            (uuid, "uuid4", lambda: uuid.UUID(int=42)),
            (socket, "gethostname", lambda: "golden"),
            (os, "getpid", lambda: 1),
            (atomic, "datetime", clock),
        ]:
            stack.enter_context(mock.patch.object(target, name, value))
        yield


if __name__ == "__main__":
    make(Path(sys.argv[1]))
