"""Episodes made by hand, so that pixels of their pictures are known."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wmtk.datasets import Dataset, Episode, Provenance, Schema
from wmtk.spaces import ArraySpec
from wmtk.viz.draw.episode_view import EpisodeView

MakeEpisode = Callable[..., Episode]

SHADES = 10  # the picture at step t is a plain gray of 10 · t


@pytest.fixture
def schema() -> Schema:
    return Schema(
        obs={"image": ArraySpec("box", (16, 16, 1), "uint8", 0, 255)},
        action=ArraySpec("discrete", (), "int64", 0, 2),
    )


@pytest.fixture
def view(schema: Schema) -> EpisodeView:
    return EpisodeView.of(schema, {"env_id": "wmtk/Catch-v0"})


@pytest.fixture
def make_episode() -> MakeEpisode:
    def make(steps: int = 9, **changes: Any) -> Episode:
        shades = (np.arange(steps + 1) * SHADES).astype(np.uint8)
        action = np.arange(steps + 1) % 3
        reward = np.zeros(steps + 1)
        reward[-1] = 1.0
        fields: dict[str, Any] = {
            "obs": {"image": np.broadcast_to(shades[:, None, None, None], (steps + 1, 16, 16, 1))},
            "action": action,
            "reward": reward,
            "terminated": True,
            "truncated": False,
            "provenance": Provenance("test/Env-v0", policy="random"),
        }
        return Episode(**(fields | changes))

    return make


@pytest.fixture
def dataset(tmp_path: Path, schema: Schema, make_episode: MakeEpisode) -> Dataset:
    """Ten episodes of 1 … 10 steps; number 3 is the worst and number 6 the best."""
    made = Dataset.create(tmp_path / "d.zarr", schema, env={"env_id": "wmtk/Catch-v0"})
    episodes = []
    for number in range(10):
        reward = np.zeros(number + 2)
        reward[-1] = {3: -2.0, 6: 5.0}.get(number, 0.0)
        episodes.append(make_episode(number + 1, reward=reward))
    made.append(episodes)
    return made


@dataclass(frozen=True)
class Video:
    """What a player finds in a file."""

    codec: str
    pixels: str
    fps: float
    frames: NDArray[np.uint8]  # (N, H, W, 3)


@pytest.fixture
def read_video() -> Callable[[Path], Video]:
    """Decode a video with ffmpeg itself: imageio's reader leaves pipes open."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg")

    def read(path: Path) -> Video:
        command = [ffmpeg.get_ffmpeg_exe(), "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        done = subprocess.run(command, capture_output=True, check=True)
        pattern = r"Video: (\w+).*?(yuv\w+).*? (\d+)x(\d+).*? ([\d.]+) fps"
        found = re.search(pattern, done.stderr.decode())
        assert found is not None, done.stderr
        codec, pixels, width, height, fps = found.groups()
        frames = np.frombuffer(done.stdout, np.uint8).reshape(-1, int(height), int(width), 3)
        return Video(codec, pixels, float(fps), frames)

    return read
