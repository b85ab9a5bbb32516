"""`wmtk viz intervene`: change one code, look at the picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit_text, human_bytes, progress
from wmtk.cli.common.options import Json
from wmtk.cli.viz.window_options import (
    Checkpoint,
    DataPath,
    Device,
    DrawnFrom,
    Fps,
    ImageKey,
    Out,
    RunPath,
    Seed,
    open_look,
    out_or_usual,
    require_out,
)
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.stats import Numbers

WINDOWS, ROWS = 16, 20  # that the use of classes is counted on


@dataclass(frozen=True)
class InterveneReport:
    path: Path
    run: Path
    update: int
    dataset: Path
    held_out: str
    seed: int
    image: str
    frames: list[str]  # which frames were changed
    effect: Numbers  # (V,), the mean change of a pixel, of 1
    width: int
    height: int
    bytes: int


def intervene(
    run: RunPath,
    data: DataPath,
    out: Out = None,
    variables: Annotated[int, typer.Option(min=1, max=64, help="Codes to show in full.")] = 6,
    frames: Annotated[int, typer.Option(min=1, max=64, help="Frames to change.")] = 4,
    episodes: DrawnFrom = None,
    fps: Fps = 2.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw what each latent variable stands for, by changing it and nothing else.

    Frames are seen by the model; then one of its codes is set to each class that is in use, and
    the state is decoded again. The map of a code shows which pixels it moves. In a video the codes
    run through their classes.

    \b
    Examples:
      wmtk viz intervene runs/catch catch.zarr codes-moved.png --variables 6
      wmtk viz intervene runs/catch catch.zarr codes-moved.mp4 --frames 6
    """
    import numpy as np

    from wmtk.viz.draw.rollout_panels import choose_image
    from wmtk.viz.intervention import set_codes as change
    from wmtk.viz.metrics import code_usage
    from wmtk.viz.sheets.intervention_sheet import intervention_sheet
    from wmtk.viz.videos.intervention_video import intervention_frames
    from wmtk.viz.videos.video_file import IMAGE_ENDINGS, write_image, write_video
    from wmtk.viz.windows import read_windows

    require_out(out)
    look = open_look(
        run,
        data,
        context=1,
        horizon=ROWS - 1,
        count=max(WINDOWS, frames),
        episodes=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    key = choose_image(dict(look.model.schema.obs), image)
    if key is None:
        raise UsageError("The model sees no images.", "wmtk viz codes works without them.")
    batch = read_windows(look.dataset, look.windows, look.length)
    seen = look.model.observe_batch(batch, seed)
    usage = code_usage(seen.posterior[batch.mask])
    windows = np.arange(min(frames, len(look.windows)))
    steps = batch.mask[windows].sum(1) // 2  # in the middle of each
    with progress("Changing codes", len(usage.usage), noun="code") as bar:
        found = change(
            look.model,
            seen,
            (windows, steps),
            key,
            usage,
            on_variable=lambda done, total: bar.update(completed=done, total=total),
        )
    title = f"Codes of {look.model.run.path.name} changed, update {look.model.step:,}"
    at = [
        f"episode {batch.episode[w]}, step {batch.start[w] + s}"
        for w, s in zip(windows, steps, strict=True)
    ]
    subtitle = f"{look.dataset.path.name} ({look.held_out}). Frames: {'; '.join(at)}."
    target = out_or_usual(out, look.model, "intervene", still=True)
    if target.suffix.lower() in IMAGE_ENDINGS:
        sheet = intervention_sheet(found, variables=variables, title=title, subtitle=subtitle)
        written = write_image(target, sheet)
    else:
        drawn = intervention_frames(found, variables=variables, title=title, subtitle=subtitle)
        written = write_video(target, drawn, fps)
    report = InterveneReport(
        path=target,
        run=run,
        update=look.model.step,
        dataset=data,
        held_out=look.held_out,
        seed=seed,
        image=key,
        frames=at,
        effect=found.effect,
        width=written.width,
        height=written.height,
        bytes=written.bytes,
    )
    strongest = np.argsort(-found.effect)[:3].tolist()
    names = ", ".join(f"z{v} ({found.effect[v]:.1%})" for v in strongest)
    size = f"{written.width} × {written.height} pixels, {human_bytes(written.bytes)}"
    emit_text(
        report, f"{target}: the codes that change most of {key} are {names}; {size}.", json=json
    )
