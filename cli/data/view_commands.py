"""Commands of `wmtk data` that draw episodes: contact sheets and videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit_text, human_bytes, human_count
from wmtk.cli.common.options import OUTPUT, Fps, Json, seed_option
from wmtk.cli.data.dataset_options import DatasetPath, TagOption
from wmtk.cli.viz.window_options import ImageKey, progress_bars

if TYPE_CHECKING:
    from wmtk.viz.episode_media import SheetFile
    from wmtk.viz.videos.episode_file import WrittenEpisode


def sheet(
    dataset: DatasetPath,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="F.png",
            help="The image to write.",
            show_default="DATASET-sheet.png",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, metavar="N", help="Number of episodes.")] = 6,
    frames: Annotated[
        int, typer.Option(min=2, max=100, help="Frames per episode, first and last included.")
    ] = 8,
    seed: Annotated[
        int, seed_option("Seed of the choice of random episodes.", panel="Options")
    ] = 0,
    image: ImageKey = None,
    tag: TagOption = None,
    json: Json = False,
) -> None:
    """Draw a contact sheet of episodes with actions, rewards and ends.

    The rows are the first, the last, the best and the worst episode, and random ones. Observations
    without images are drawn as lines.

    \b
    Example:
      wmtk data sheet runs/catch.zarr --out catch.png --episodes 4
    """
    from wmtk.viz import sheet

    result = sheet(dataset, out, episodes=episodes, frames=frames, image=image, seed=seed, tag=tag)
    emit_text(result, _sheet_text(result), json=json)


def _sheet_text(report: SheetFile) -> str:
    episodes = [
        f"{row.episode} ({row.why})" if row.why else str(row.episode) for row in report.episodes
    ]
    return _sentence(report.path, [f"episodes {', '.join(episodes)}", *_size(report)])


def play(
    dataset: DatasetPath,
    episode: Annotated[
        int,
        typer.Option(
            "--episode", "-e", metavar="N", help="Number of the episode, from 0; -1 is the last."
        ),
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="F",
            help="The .mp4, .webm or .gif to write, or .png for an image.",
            show_default="DATASET-episode-N.mp4",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    fps: Fps = 15.0,
    scale: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Factor by which to enlarge images.",
            show_default="to about 400 pixels",
        ),
    ] = None,
    image: ImageKey = None,
    tag: TagOption = None,
    json: Json = False,
) -> None:
    """Write an episode as a video with actions, rewards and returns.

    Observations without images are drawn as lines.

    \b
    Examples:
      wmtk data play runs/catch.zarr --episode -1
      wmtk data play runs/catch.zarr --episode 3 --out third.gif --fps 30
    """
    from wmtk.viz import video

    with progress_bars() as on_progress:
        result = video(
            dataset,
            episode,
            out,
            fps=fps,
            scale=scale,
            image=image,
            tag=tag,
            on_progress=on_progress,
        )
    emit_text(result, _play_text(result), json=json)


def _play_text(report: WrittenEpisode) -> str:
    facts = [
        f"episode {report.episode}",
        human_count(report.steps, "step"),
        f"return {report.total_reward:.4g}",
        report.end,
    ]
    return _sentence(report.path, [*facts, *_size(report)])


def _size(report: SheetFile | WrittenEpisode) -> list[str]:
    return [f"{report.width} × {report.height} pixels", human_bytes(report.bytes)]


def _sentence(path: Path, facts: list[str]) -> str:
    return f"{path}: {', '.join(facts)}."
