"""The commands of `wmtk viz` that draw what a model sees and imagines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit_text, human_bytes, progress
from wmtk.cli.common.options import Json
from wmtk.cli.viz.window_options import (
    CONTEXT,
    HORIZON,
    Checkpoint,
    Context,
    DataPath,
    Device,
    Fps,
    Horizon,
    ImageKey,
    Look,
    Out,
    RunPath,
    Seed,
    open_look,
    out_or_usual,
    require_out,
)

if TYPE_CHECKING:
    from wmtk.viz.draw.canvas import Image
    from wmtk.viz.rollouts import Rollout

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
    out: Out = None,
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
      wmtk viz openloop runs/catch catch.zarr                  into runs/catch/videos
      wmtk viz openloop runs/catch catch.zarr openloop.png
      wmtk viz openloop runs/catch catch.zarr openloop.mp4 --episodes 4
      wmtk viz openloop runs/catch catch.zarr futures.gif --samples 4 --episodes 1
    """
    from wmtk.viz.rollouts import open_loop_rollouts

    look = _open(run, data, out, context, horizon, episodes, seed, checkpoint, device)
    rollouts = [
        rollout
        for batch in look.batches()
        for rollout in open_loop_rollouts(
            look.model, batch, context=context, samples=samples, seed=seed
        )
    ]
    target = out_or_usual(out, look.model, "openloop", still=False)
    tell(draw(look, rollouts, target, "Open loop", frames, fps, image, seed), json=json)


def recon(
    run: RunPath,
    data: DataPath,
    out: Out = None,
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
    from wmtk.viz.rollouts import reconstruction_rollouts

    look = _open(run, data, out, 1, rows - 1, episodes, seed, checkpoint, device)
    rollouts = [
        rollout
        for batch in look.batches()
        for rollout in reconstruction_rollouts(look.model, batch, seed=seed)
    ]
    target = out_or_usual(out, look.model, "recon", still=False)
    tell(draw(look, rollouts, target, "Reconstructions", frames, fps, image, seed), json=json)


def _open(
    run: Path,
    data: Path,
    out: Path | None,
    context: int,
    horizon: int,
    episodes: int,
    seed: int,
    checkpoint: str,
    device: str,
) -> Look:
    """One window of each of some episodes; what cannot be written is refused first."""
    require_out(out)
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


def draw(
    look: Look,
    rollouts: Sequence[Rollout],
    out: Path,
    what: str,
    columns: int,
    fps: float,
    image: str | None,
    seed: int,
) -> Drawn:
    """Draw rollouts into a file, whose ending decides between a video and a picture."""
    from wmtk.viz.draw.rollout_panels import choose_image
    from wmtk.viz.sheets.rollout_sheet import rollout_sheet
    from wmtk.viz.videos.rollout_video import rollout_frames
    from wmtk.viz.videos.video_file import IMAGE_ENDINGS, write_image, write_video

    key = choose_image(dict(look.model.schema.obs), image)
    title = f"{what} of {look.model.run.path.name}, update {look.model.step:,}"
    if out.suffix.lower() in IMAGE_ENDINGS:
        subtitle = f"{look.dataset.path.name}: {look.held_out}. Seed {seed}."
        pixels = rollout_sheet(rollouts, key, columns=columns, title=title, subtitle=subtitle)
        written = write_image(out, pixels)
    else:
        total = max(rollout.rows for rollout in rollouts)
        with progress(f"draw {out.name}", total, noun="frame") as bar:
            drawn = counted(rollout_frames(rollouts, key, title=title), bar.advance)
            written = write_video(out, drawn, fps)
    return Drawn(
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


def tell(report: Drawn, more: str = "", *, json: bool) -> None:
    """What was drawn, and how large it is."""
    size = f"{report.width} × {report.height} pixels, {human_bytes(report.bytes)}"
    shown = "; ".join(report.windows)
    emit_text(report, f"{report.path}: {shown} ({report.held_out}); {size}.{more}", json=json)


def counted(frames: Iterator[Image], advance: Callable[[], None]) -> Iterator[Image]:
    """The frames, each of which is told of once it was used."""
    for frame in frames:
        yield frame
        advance()
