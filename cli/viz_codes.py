"""`wmtk viz codes`: how a model uses its discrete variables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.console import human_bytes, human_count, progress
from wmtk.cli.data_options import Json, say
from wmtk.cli.viz_options import Checkpoint, DataPath, Device, RunPath, Seed, open_look

if TYPE_CHECKING:
    from wmtk.viz.metrics import CodeUsage
    from wmtk.viz.metrics.bootstrap import Numbers


@dataclass(frozen=True)
class CodesReport:
    path: Path
    run: Path
    update: int
    dataset: Path
    held_out: str
    seed: int
    dead_share: float
    codes: CodeUsage
    prior_usage: Numbers  # (V, K)
    width: int
    height: int
    bytes: int


def codes(
    run: RunPath,
    data: DataPath,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The .png to write.")],
    windows: Annotated[int, typer.Option(min=1, help="Windows to look at, in all.")] = 50,
    rows: Annotated[int, typer.Option(min=2, help="Rows of a window.")] = 50,
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Episodes to draw them from, at most.", show_default="all"),
    ] = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw how often each class of each latent variable is used.

    Beside the maps of posterior and prior stand the perplexity of each variable (how many classes
    are as good as used) and the information that it has about the frame. Dead classes are marked.

    \b
    Examples:
      wmtk viz codes runs/catch catch.zarr codes.png
      wmtk viz codes runs/catch catch.zarr codes.png --checkpoint 1000 --json
    """
    from wmtk.viz.code_frames import watch_codes
    from wmtk.viz.code_map import code_map
    from wmtk.viz.metrics import code_usage
    from wmtk.viz.video import IMAGE_ENDINGS, require_ending, write_image

    require_ending(out, IMAGE_ENDINGS)
    look = open_look(
        run,
        data,
        context=1,
        horizon=rows - 1,
        count=windows,
        episodes=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    with progress("Looking", len(look.windows), noun="window") as bar:
        posterior, prior = watch_codes(
            look.model, look.batches(), seed=seed, on_windows=bar.advance
        )
    found, before = code_usage(posterior), prior.mean(0)
    title = f"Codes of {look.model.run.path.name}, update {look.model.step:,}"
    subtitle = f"{look.dataset.path.name}: {look.held_out}. {found.frames:,} frames."
    written = write_image(out, code_map(found, before, title=title, subtitle=subtitle))
    report = CodesReport(
        path=out,
        run=run,
        update=look.model.step,
        dataset=data,
        held_out=look.held_out,
        seed=seed,
        dead_share=found.dead_share,
        codes=found,
        prior_usage=before,
        width=written.width,
        height=written.height,
        bytes=written.bytes,
    )
    V, K = found.usage.shape
    text = (
        f"{out}: {V} variables of {K} classes in {human_count(found.frames, 'frame')} "
        f"({look.held_out}); {int(found.dead.sum())} classes ({found.dead_share:.0%}) are dead, "
        f"mean perplexity {found.perplexity.mean():.1f}; {human_bytes(written.bytes)}."
    )
    say(report, text, json=json)
