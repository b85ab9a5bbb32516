"""One episode of a dataset as a file: a video, or an image of some of its frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wmtk.datasets import Dataset
from wmtk.errors import DatasetError, UsageError
from wmtk.viz.draw.canvas import Image
from wmtk.viz.draw.episode_view import view_of
from wmtk.viz.draw.marks import end_of
from wmtk.viz.sheets.contact_sheet import SheetRow, describe
from wmtk.viz.sheets.episode_strip import episode_strip
from wmtk.viz.videos.episode_video import episode_frames
from wmtk.viz.videos.video_file import (
    IMAGE_ENDINGS,
    VIDEO_ENDINGS,
    require_ending,
    write_image,
    write_video,
)

ENDINGS = VIDEO_ENDINGS + IMAGE_ENDINGS


@dataclass(frozen=True)
class WrittenEpisode:
    """An episode that was written as a video or an image."""

    path: Path
    episode: int  # index in the dataset
    steps: int
    total_reward: float
    end: str
    image: str | None  # the image key; None if lines were drawn
    frames: int  # 1 for an image
    fps: float | None  # None for an image
    width: int
    height: int
    bytes: int


def find_episode(dataset: Dataset, index: int) -> int:
    """The index of an episode, negative ones counted from the end."""
    count = len(dataset)
    if not count:
        raise DatasetError(
            f"{dataset.path} has no episode to show.", "Collect some first.", dataset.path
        )
    if not -count <= index < count:
        raise UsageError(
            f"{dataset.path} has no episode {index}.",
            f"It has {count:,}: use 0 to {count - 1}, or -1 to -{count} from the end.",
        )
    return index % count


def write_episode(
    dataset: Dataset,
    index: int,
    path: str | os.PathLike[str],
    *,
    fps: float = 15.0,
    scale: int | None = None,
    image: str | None = None,
    on_frame: Callable[[int, int], None] = lambda done, total: None,
) -> WrittenEpisode:
    """Write an episode into a file whose ending decides the format: mp4, webm, gif or png.

    `image` is the image key to draw, `scale` the factor of enlargement. `on_frame(done, total)` is
    called after each frame.
    """
    target = Path(path)
    still = require_ending(target, ENDINGS) in IMAGE_ENDINGS
    number = find_episode(dataset, index)
    view = view_of(dataset, image)
    episode = dataset[number]
    title = f"{dataset.path.resolve().name}, episode {number}"

    def frames() -> Iterator[Image]:
        drawn = episode_frames(episode, view, scale=scale, title=title)
        for done, frame in enumerate(drawn, start=1):
            yield frame
            on_frame(done, episode.length + 1)

    if still:
        row = SheetRow(number, "", episode)
        strip = episode_strip(row, view, title=title, subtitle=describe(dataset, view))
        written = write_image(target, strip)
        on_frame(1, 1)
    else:
        written = write_video(target, frames(), fps)
    return WrittenEpisode(
        path=target,
        episode=number,
        steps=episode.length,
        total_reward=episode.total_reward,
        end=end_of(episode),
        image=view.image,
        frames=written.frames,
        fps=None if still else fps,
        width=written.width,
        height=written.height,
        bytes=written.bytes,
    )
