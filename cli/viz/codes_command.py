"""`wmtk viz codes`: how a model uses its discrete variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit_text, human_bytes, human_count, progress
from wmtk.cli.common.options import Json
from wmtk.cli.viz.window_options import (
    Checkpoint,
    DataPath,
    Device,
    DrawnFrom,
    Fps,
    Look,
    Out,
    RunPath,
    Seed,
    open_look,
    out_or_usual,
)
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.stats import Numbers
    from wmtk.viz.draw.canvas import Image
    from wmtk.viz.metrics import CodeUsage
    from wmtk.viz.plots.code_history import CheckpointCodes
    from wmtk.viz.videos.video_file import Written

FILMED = 1  # episodes of a video unless told otherwise


@dataclass(frozen=True)
class Moment:
    """The use of codes at one checkpoint, in short."""

    update: int
    dead_share: float
    perplexity: float  # of a variable, on average
    information: float  # nats of a variable, on average
    distance: float  # of the use by prior and by posterior, on average, 0 to 1


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
    distance: Numbers  # (V,), of the use by prior and by posterior
    training: list[Moment]  # with --training, for each checkpoint
    frames: int  # of the file: 1 for a picture
    width: int
    height: int
    bytes: int


def codes(
    run: RunPath,
    data: DataPath,
    out: Out = None,
    training: Annotated[
        bool, typer.Option("--training", help="Show how it changed, from all checkpoints.")
    ] = False,
    windows: Annotated[int, typer.Option(min=1, help="Windows to look at, in all.")] = 50,
    rows: Annotated[int, typer.Option(min=2, help="Rows of a window.")] = 50,
    episodes: DrawnFrom = None,
    fps: Fps = 8.0,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw how often each class of each latent variable is used.

    Beside the maps of posterior and prior stand the perplexity of each variable (how many classes
    are as good as used) and the information that it has about the frame. Dead classes are marked.

    A video shows the codes of an episode step by step instead, with the frames and the KL between
    what was expected and what was seen. With --training it is how all of this changed from
    checkpoint to checkpoint; logging.keep_checkpoints says how many of them a training keeps.

    \b
    Examples:
      wmtk viz codes runs/catch catch.zarr codes.png
      wmtk viz codes runs/catch catch.zarr codes.mp4 --episodes 1
      wmtk viz codes runs/catch catch.zarr learning.png --training
      wmtk viz codes runs/catch catch.zarr codes.png --checkpoint 1000 --json
    """
    from wmtk.viz.plots.code_map import code_map
    from wmtk.viz.plots.figures import FIGURE_ENDINGS, save_figure
    from wmtk.viz.videos.video_file import VIDEO_ENDINGS, require_ending, write_video

    if out is not None:
        require_ending(out, VIDEO_ENDINGS + FIGURE_ENDINGS)
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
    now = _moment(look, seed)
    target = out_or_usual(out, look.model, "codes-training" if training else "codes", still=True)
    still = target.suffix.lower() in FIGURE_ENDINGS
    title = f"Codes of {look.model.run.path.name}"
    caption = f"{look.dataset.path.name}: {look.held_out}. {now.usage.frames:,} frames."
    moments = _moments(look, now, seed, device) if training else []
    written: Written
    if training and still:
        from wmtk.viz.plots.code_history import code_history

        written = save_figure(code_history(moments, title=title, caption=caption), target)
    elif still:
        name = f"{title}, update {now.update:,}"
        figure = code_map(now.usage, now.prior, title=name, caption=caption)
        written = save_figure(figure, target)
    elif training:
        written = write_video(target, _maps(moments, title, caption), fps)
    else:
        written = write_video(target, _film(look, episodes or FILMED, title, seed), fps)
    report = CodesReport(
        path=target,
        run=run,
        update=now.update,
        dataset=data,
        held_out=look.held_out,
        seed=seed,
        dead_share=now.usage.dead_share,
        codes=now.usage,
        prior_usage=now.prior,
        distance=now.distance,
        training=[_short(moment) for moment in moments],
        frames=written.frames,
        width=written.width,
        height=written.height,
        bytes=written.bytes,
    )
    emit_text(report, _text(report), json=json)


def _text(report: CodesReport) -> str:
    found, (V, K) = report.codes, report.codes.usage.shape
    looked = f"{human_count(found.frames, 'frame')} ({report.held_out})"
    text = (
        f"{report.path}: {V} variables of {K} classes in {looked}; {int(found.dead.sum())} classes "
        f"({found.dead_share:.0%}) are dead, mean perplexity {found.perplexity.mean():.1f}, "
        f"{report.distance.mean():.0%} of the prior's use elsewhere than the posterior's; "
        f"{human_bytes(report.bytes)}."
    )
    for moment in report.training:
        text += (
            f"\nupdate {moment.update:,}: {moment.dead_share:.0%} dead, perplexity "
            f"{moment.perplexity:.1f}, {moment.information:.2f} nats, {moment.distance:.0%} "
            "elsewhere"
        )
    return text


def _moment(look: Look, seed: int) -> CheckpointCodes:
    """The use of codes by one checkpoint."""
    from wmtk.viz.latent_codes import code_distributions
    from wmtk.viz.metrics import code_usage
    from wmtk.viz.plots.code_history import CheckpointCodes

    with progress(
        f"Looking at update {look.model.step:,}", len(look.windows), noun="window"
    ) as bar:
        posterior, prior = code_distributions(
            look.model, look.batches(), seed=seed, on_windows=bar.advance
        )
    return CheckpointCodes(look.model.step, code_usage(posterior), prior.mean(0))


def _moments(look: Look, now: CheckpointCodes, seed: int, device: str) -> list[CheckpointCodes]:
    """The same for each checkpoint of the run, on the same windows."""
    from dataclasses import replace

    from wmtk.agent.load import load

    path = look.model.run.path
    steps = look.model.run.checkpoints.steps()
    if len(steps) < 2:
        raise UsageError(
            f"{path} has one checkpoint only: there is no change to show.",
            "Keep more of them in training: --set logging.keep_checkpoints=20.",
        )
    return [
        now
        if step == now.update
        else _moment(replace(look, model=load(path, str(step), device)), seed)
        for step in steps
    ]


def _short(moment: CheckpointCodes) -> Moment:
    usage = moment.usage
    return Moment(
        update=moment.update,
        dead_share=usage.dead_share,
        perplexity=float(usage.perplexity.mean()),
        information=float(usage.information.mean()),
        distance=float(moment.distance.mean()),
    )


def _maps(moments: list[CheckpointCodes], title: str, caption: str) -> Iterator[Image]:
    """The map of each checkpoint, for a video."""
    from wmtk.viz.plots.code_map import code_map
    from wmtk.viz.plots.figures import figure_pixels

    for moment in moments:
        name = f"{title}, update {moment.update:,}"
        yield figure_pixels(code_map(moment.usage, moment.prior, title=name, caption=caption))


def _film(look: Look, episodes: int, title: str, seed: int) -> Iterator[Image]:
    """One window of each of some episodes, one after the other."""
    from wmtk.viz.draw.rollout_panels import choose_image
    from wmtk.viz.videos.code_video import code_clips, code_frames
    from wmtk.viz.windows import read_windows

    chosen = list({window.episode: window for window in look.windows}.values())[:episodes]
    batch = look.model.preprocess(read_windows(look.dataset, chosen, look.length))
    image = choose_image(dict(look.model.schema.obs), None)
    for film in code_clips(look.model.observe_batch(batch, seed), batch, image):
        yield from code_frames(film, title=f"{title}, update {look.model.step:,}")
