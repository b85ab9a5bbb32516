"""`wmtk.viz.sheet` and `wmtk.viz.video`: recorded episodes as images and videos."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmtk.datasets import Dataset
from wmtk.reprs import brief_repr
from wmtk.viz.output_files import no_progress
from wmtk.viz.sheets.contact_sheet import Choice, dataset_sheet
from wmtk.viz.videos.episode_file import ENDINGS, WrittenEpisode, find_episode, write_episode
from wmtk.viz.videos.video_file import IMAGE_ENDINGS, require_ending, write_image
from wmtk.viz.windows import DatasetLike, OnProgress


@dataclass(frozen=True)
class SheetFile:
    """A contact sheet that was written."""

    path: Path
    width: int  # pixels
    height: int
    bytes: int
    image: str | None  # the observation key shown; None if vectors were drawn as lines
    seed: int
    episodes: tuple[Choice, ...]

    __repr__ = brief_repr

    def _repr_png_(self) -> Any:
        return self.path.read_bytes()


def sheet(
    dataset: DatasetLike,
    out: str | Path | None = None,
    *,
    episodes: int = 6,
    frames: int = 8,
    image: str | None = None,
    seed: int = 0,
    tag: str | None = None,
) -> SheetFile:
    """Draw a contact sheet: frames of several episodes with actions, rewards and ends.

    The rows are the first, the last, the best and the worst episode, and random ones.

    Args:
        dataset: A dataset, or its path.
        out: The `.png` to write; by default `NAME-sheet.png` beside the dataset.
        episodes: Number of episodes.
        frames: Frames per episode, the first and the last included.
        image: The observation key to show; by default the first image.
        seed: Seed of the choice of random episodes.
        tag: A tagged version of the dataset; by default the newest version.

    Returns:
        The file in `.path`, and the chosen episodes.

    Example:
        >>> result = wmtk.viz.sheet(data, "sheet.png", episodes=3)
        >>> len(result.episodes)
        3
    """
    with _opened(dataset, tag) as data:
        path = beside(data.path, "sheet.png") if out is None else Path(out)
        require_ending(path, IMAGE_ENDINGS)
        drawn = dataset_sheet(data, episodes=episodes, frames=frames, seed=seed, image=image)
    written = write_image(path, drawn.pixels)
    return SheetFile(
        path=written.path,
        width=written.width,
        height=written.height,
        bytes=written.bytes,
        image=drawn.image,
        seed=seed,
        episodes=drawn.choices,
    )


def video(
    dataset: DatasetLike,
    episode: int = 0,
    out: str | Path | None = None,
    *,
    fps: float = 15.0,
    scale: int | None = None,
    image: str | None = None,
    tag: str | None = None,
    on_progress: OnProgress = no_progress,
) -> WrittenEpisode:
    """Write an episode as a video with actions, rewards and returns.

    Args:
        dataset: A dataset, or its path.
        episode: Index of the episode; negative ones count from the end.
        out: The `.mp4`, `.webm`, `.gif` or, for a strip of frames, `.png` to write; by default
            `NAME-episode-N.mp4` beside the dataset.
        fps: Steps per second.
        scale: Factor by which frames are enlarged; by default to about 400 pixels.
        image: The observation key to show; by default the first image.
        tag: A tagged version of the dataset; by default the newest version.
        on_progress: Called with a description, the number of drawn frames and of all.

    Returns:
        The file in `.path`, with the length and the return of the episode.

    Example:
        >>> result = wmtk.viz.video(data, -1, "last.gif", fps=30)
        >>> result.frames == result.steps + 1
        True
    """
    if out is not None:
        require_ending(Path(out), ENDINGS)
    with _opened(dataset, tag) as data:
        number = find_episode(data, episode)
        path = beside(data.path, f"episode-{number}.mp4") if out is None else Path(out)
        return write_episode(
            data,
            number,
            path,
            fps=fps,
            scale=scale,
            image=image,
            on_frame=lambda done, total: on_progress(f"Drawing {path.name}", done, total),
        )


def _opened(dataset: DatasetLike, tag: str | None) -> AbstractContextManager[Dataset]:
    """A context with the dataset, which closes it if it was given as a path."""
    if isinstance(dataset, Dataset):
        return nullcontext(dataset)
    return Dataset.open(dataset, tag=tag)


def beside(dataset: Path, ending: str) -> Path:
    """A path beside a dataset: `catch.zarr` gives `catch-<ending>`."""
    path = dataset if dataset.name not in {"", ".."} else dataset.resolve()
    return path.with_name(f"{path.name.removesuffix('.zarr')}-{ending}")
