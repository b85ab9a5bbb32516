"""Commands of `wmtk data` that draw episodes: contact sheets and videos."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit_text, human_bytes, human_count
from wmtk.cli.common.options import OUTPUT, Fps, Json, seed_option
from wmtk.cli.data.dataset_options import DatasetPath, TagOption, counted, open_dataset

if TYPE_CHECKING:
    from wmtk.viz.sheets.contact_sheet import Choice
    from wmtk.viz.videos.episode_file import WrittenEpisode

ImageKey = Annotated[
    str | None,
    typer.Option(
        "--image", metavar="KEY", help="Observation key of the images, if there are several."
    ),
]


@dataclass(frozen=True)
class SheetReport:
    path: Path
    width: int
    height: int
    bytes: int
    image: str | None  # the observation key shown; None if lines were drawn
    seed: int
    episodes: tuple[Choice, ...]


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
    from wmtk.viz.sheets.contact_sheet import dataset_sheet
    from wmtk.viz.videos.video_file import IMAGE_ENDINGS, require_ending, write_image

    target = out or beside(dataset, "sheet.png")
    require_ending(target, IMAGE_ENDINGS)
    with open_dataset(dataset, tag) as opened:
        drawn = dataset_sheet(opened, episodes=episodes, frames=frames, seed=seed, image=image)
    written = write_image(target, drawn.pixels)
    report = SheetReport(
        target, written.width, written.height, written.bytes, drawn.image, seed, drawn.choices
    )
    emit_text(report, _sheet_text(report), json=json)


def _sheet_text(report: SheetReport) -> str:
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

    Observations without images are drawn as bars.

    \b
    Examples:
      wmtk data play runs/catch.zarr --episode -1
      wmtk data play runs/catch.zarr --episode 3 --out third.gif --fps 30
    """
    from wmtk.viz.videos.episode_file import ENDINGS, find_episode, write_episode
    from wmtk.viz.videos.video_file import require_ending

    if out is not None:
        require_ending(out, ENDINGS)
    with open_dataset(dataset, tag) as opened:
        target = out or beside(dataset, f"episode-{find_episode(opened, episode)}.mp4")
        with counted(f"draw {target.name}", "frame") as report:
            recorded = write_episode(
                opened, episode, target, fps=fps, scale=scale, image=image, on_frame=report
            )
    emit_text(recorded, _play_text(recorded), json=json)


def _play_text(report: WrittenEpisode) -> str:
    facts = [
        f"episode {report.episode}",
        human_count(report.steps, "step"),
        f"return {report.total_reward:.4g}",
        report.end,
    ]
    return _sentence(report.path, [*facts, *_size(report)])


def _size(report: SheetReport | WrittenEpisode) -> list[str]:
    return [f"{report.width} × {report.height} pixels", human_bytes(report.bytes)]


def _sentence(path: Path, facts: list[str]) -> str:
    return f"{path}: {', '.join(facts)}."


def beside(dataset: Path, ending: str) -> Path:
    """A file next to a dataset, named after it: catch.zarr gives catch-<ending>."""
    path = dataset if dataset.name not in {"", ".."} else dataset.resolve()
    return path.with_name(f"{path.name.removesuffix('.zarr')}-{ending}")
