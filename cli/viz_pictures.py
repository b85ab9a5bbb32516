"""The commands of `wmtk viz` that draw what a model sees and imagines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.console import human_bytes, progress
from wmtk.cli.data_options import Json, say
from wmtk.cli.viz_options import (
    CONTEXT,
    HORIZON,
    Checkpoint,
    Context,
    DataPath,
    Device,
    Horizon,
    Look,
    RunPath,
    Seed,
    open_look,
)

if TYPE_CHECKING:
    from wmtk.viz.canvas import Image
    from wmtk.viz.rollouts import Rollout

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The .mp4, .webm, .gif or .png to write.")]
ImageKey = Annotated[
    str | None,
    typer.Option("--image", help="The images to show, where there are several.", metavar="KEY"),
]
Fps = Annotated[float, typer.Option(min=0.1, max=240, help="Steps a second.")]
Columns = Annotated[int, typer.Option("--frames", min=2, max=60, help="Frames a row, of a .png.")]
Episodes = Annotated[int, typer.Option(min=1, max=64, help="How many episodes to show.")]


@dataclass(frozen=True)
class Drawn:
    """A picture or video that was written."""

    path: Path
    run: Path
    update: int
    dataset: Path
    held_out: str
    windows: list[str]
    image: str | None  # the observation key shown; None if lines were drawn
    seed: int
    frames: int  # 1 for a picture
    width: int
    height: int
    bytes: int


def openloop(
    run: RunPath,
    data: DataPath,
    out: Out,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: Annotated[int, typer.Option(min=1, max=8, help="Futures to show of each.")] = 1,
    episodes: Episodes = 3,
    frames: Columns = 12,
    fps: Fps = 8.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw what a model imagines beside what happened.

    It sees the first rows of a window, in green, then imagines the next ones with the recorded
    actions, in red. Below the truth stands what it shows, and the error; then its rewards and ends
    beside the true ones. The file's ending decides between a video and a picture.

    \b
    Examples:
      wmtk viz openloop runs/catch catch.zarr openloop.png
      wmtk viz openloop runs/catch catch.zarr openloop.mp4 --episodes 4
      wmtk viz openloop runs/catch catch.zarr futures.gif --samples 4 --episodes 1
    """
    from wmtk.viz.rollouts import open_loop

    look = _open(run, data, out, context, horizon, episodes, seed, checkpoint, device)
    rollouts = [
        rollout
        for batch in look.batches()
        for rollout in open_loop(look.model, batch, context=context, samples=samples, seed=seed)
    ]
    _write(look, rollouts, out, "Open loop", frames, fps, image, seed, json)


def recon(
    run: RunPath,
    data: DataPath,
    out: Out,
    rows: Annotated[int, typer.Option(min=2, help="Rows to show of each episode.")] = 50,
    episodes: Episodes = 3,
    frames: Columns = 12,
    fps: Fps = 8.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw what a model makes of frames that it sees: the best that it can show.

    \b
    Examples:
      wmtk viz recon runs/catch catch.zarr recon.png
      wmtk viz recon runs/catch catch.zarr recon.mp4 --rows 80
    """
    from wmtk.viz.rollouts import reconstructions

    look = _open(run, data, out, 1, rows - 1, episodes, seed, checkpoint, device)
    rollouts = [
        rollout
        for batch in look.batches()
        for rollout in reconstructions(look.model, batch, seed=seed)
    ]
    _write(look, rollouts, out, "Reconstructions", frames, fps, image, seed, json)


def _open(
    run: Path,
    data: Path,
    out: Path,
    context: int,
    horizon: int,
    episodes: int,
    seed: int,
    checkpoint: str,
    device: str,
) -> Look:
    """One window of each of some episodes; what cannot be written is refused first."""
    from wmtk.viz.record import ENDINGS
    from wmtk.viz.video import require_ending

    require_ending(out, ENDINGS)
    return open_look(
        run,
        data,
        context=context,
        horizon=horizon,
        count=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )


def _write(
    look: Look,
    rollouts: Sequence[Rollout],
    out: Path,
    what: str,
    columns: int,
    fps: float,
    image: str | None,
    seed: int,
    json: bool,
) -> None:
    from wmtk.viz.rollout_parts import choose_image
    from wmtk.viz.rollout_sheet import rollout_sheet
    from wmtk.viz.rollout_video import rollout_frames
    from wmtk.viz.video import IMAGE_ENDINGS, write_image, write_video

    key = choose_image(dict(look.model.schema.obs), image)
    title = f"{what} of {look.model.run.path.name}, update {look.model.step:,}"
    if out.suffix.lower() in IMAGE_ENDINGS:
        subtitle = f"{look.dataset.path.name}: {look.held_out}. Seed {seed}."
        pixels = rollout_sheet(rollouts, key, columns=columns, title=title, subtitle=subtitle)
        written = write_image(out, pixels)
    else:
        total = max(rollout.rows for rollout in rollouts)
        with progress(f"draw {out.name}", total, noun="frame") as bar:
            drawn = _counted(rollout_frames(rollouts, key, title=title), bar.advance)
            written = write_video(out, drawn, fps)
    report = Drawn(
        path=out,
        run=look.model.run.path,
        update=look.model.step,
        dataset=look.dataset.path,
        held_out=look.held_out,
        windows=[rollout.title for rollout in rollouts],
        image=key,
        seed=seed,
        frames=written.frames,
        width=written.width,
        height=written.height,
        bytes=written.bytes,
    )
    size = f"{written.width} × {written.height} pixels, {human_bytes(written.bytes)}"
    shown = "; ".join(report.windows)
    say(report, f"{out}: {shown} ({look.held_out}); {size}.", json=json)


def _counted(frames: Iterator[Image], advance: Callable[[], None]) -> Iterator[Image]:
    for frame in frames:
        yield frame
        advance()
