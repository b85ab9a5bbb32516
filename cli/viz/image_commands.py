"""The commands of `wmtk viz` that write images and videos of predictions and latents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import emit_text, human_bytes, human_count
from wmtk.cli.common.options import DATA, OUTPUT, Checkpoint, Device, Fps, Json
from wmtk.cli.viz.window_options import (
    CONTEXT,
    HORIZON,
    WINDOWS,
    Columns,
    Context,
    DataPath,
    DrawnFrom,
    Horizon,
    ImageKey,
    Out,
    PolicyPath,
    Rows,
    RunPath,
    Sample,
    Seed,
    ShownEpisodes,
    ShownSamples,
    Windows,
    progress_bars,
)
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.viz.latent_codes import CodeUsageFile
    from wmtk.viz.output_files import DrawnFile
    from wmtk.viz.rollout_media import RolloutFile


def openloop(
    run: RunPath,
    data: DataPath,
    out: Out = None,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: ShownSamples = 1,
    episodes: ShownEpisodes = 3,
    columns: Columns = 12,
    fps: Fps = 8.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw open-loop predictions beside the recorded rows.

    The model observes the first rows of a window, with a green border, then imagines the next ones
    with the recorded actions, with a red border. Each column has the recorded frame, the predicted
    one and the error; rewards and ends are drawn below. The ending of the file decides between a
    video and an image.

    \b
    Examples:
      wmtk viz openloop runs/catch catch.zarr                  into runs/catch/videos
      wmtk viz openloop runs/catch catch.zarr openloop.png
      wmtk viz openloop runs/catch catch.zarr openloop.mp4 --episodes 4
      wmtk viz openloop runs/catch catch.zarr futures.gif --samples 4 --episodes 1
    """
    from wmtk.viz import open_loop

    with progress_bars() as on_progress:
        result = open_loop(
            run,
            data,
            out,
            context=context,
            horizon=horizon,
            samples=samples,
            episodes=episodes,
            columns=columns,
            fps=fps,
            image=image,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
            on_progress=on_progress,
        )
    emit_text(result, _describe(result), json=json)


def recon(
    run: RunPath,
    data: DataPath,
    out: Out = None,
    rows: Rows = 50,
    episodes: ShownEpisodes = 3,
    columns: Columns = 12,
    fps: Fps = 8.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw reconstructions beside the recorded rows: the best that the model can show.

    \b
    Examples:
      wmtk viz recon runs/catch catch.zarr recon.png
      wmtk viz recon runs/catch catch.zarr recon.mp4 --rows 80
    """
    from wmtk.viz import reconstructions

    with progress_bars() as on_progress:
        result = reconstructions(
            run,
            data,
            out,
            rows=rows,
            episodes=episodes,
            columns=columns,
            fps=fps,
            image=image,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
            on_progress=on_progress,
        )
    emit_text(result, _describe(result), json=json)


def dream(
    run: PolicyPath,
    out: Out = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="The dataset to start from.",
            show_default="the data of the run",
            rich_help_panel=DATA,
        ),
    ] = None,
    context: Context = CONTEXT,
    horizon: Horizon = HORIZON,
    samples: ShownSamples = 1,
    sample: Sample = False,
    episodes: ShownEpisodes = 3,
    columns: Columns = 12,
    fps: Fps = 8.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw imagined episodes of a policy inside of its world model.

    The model observes the first rows of a recorded window, with a green border. Then the policy
    acts and the model imagines the next rows, with a red border, for which there is no recorded
    row. Imagined rewards, ends and values of the critic are drawn below. Events that the task does
    not have show that the policy exploits errors of its model.

    \b
    Examples:
      wmtk viz dream runs/catch-policy                         into runs/catch-policy/videos
      wmtk viz dream runs/catch-policy dream.png --horizon 20
      wmtk viz dream runs/catch-policy dreams.gif --samples 4 --episodes 1
      wmtk viz dream runs/catch-policy dream.mp4 --data other.zarr
    """
    from wmtk.viz import dream
    from wmtk.viz.windows import MissingDataError

    try:
        with progress_bars() as on_progress:
            result = dream(
                run,
                out,
                dataset=data,
                context=context,
                horizon=horizon,
                samples=samples,
                sample=sample,
                episodes=episodes,
                columns=columns,
                fps=fps,
                image=image,
                seed=seed,
                checkpoint=checkpoint,
                device=device,
                on_progress=on_progress,
            )
    except MissingDataError as error:
        raise UsageError(error.message, "Pass a dataset of the same task: --data …") from error
    imagined, value = (
        sum(float(numbers.mean()) for numbers in part) / len(part)
        for part in (result.imagined_returns, result.values)
    )
    more = f" The mean imagined return is {imagined:.3g}; the critic's value was {value:.3g}."
    emit_text(result, _describe(result) + more, json=json)


def codes(
    run: RunPath,
    data: DataPath,
    out: Out = None,
    training: Annotated[
        bool,
        typer.Option("--training", help="Show all checkpoints of the run.", rich_help_panel=DATA),
    ] = False,
    windows: Windows = WINDOWS,
    rows: Rows = 50,
    episodes: DrawnFrom = None,
    fps: Fps = 8.0,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw how often each class of each discrete latent variable is used.

    An image has maps of posterior and prior, with the perplexity of each variable (the effective
    number of classes in use) and its information about the frame. Dead classes are marked.

    A video shows the codes of an episode step by step, with the frames and the KL between posterior
    and prior. With --training the image or video shows the change from checkpoint to checkpoint;
    the setting logging.keep_checkpoints is the number of checkpoints that a training keeps. Images
    can also be written as .svg or .pdf.

    \b
    Examples:
      wmtk viz codes runs/catch catch.zarr codes.png
      wmtk viz codes runs/catch catch.zarr codes.mp4 --episodes 1
      wmtk viz codes runs/catch catch.zarr learning.png --training
      wmtk viz codes runs/catch catch.zarr codes.png --checkpoint 1000 --json
    """
    from wmtk.viz import code_usage

    with progress_bars() as on_progress:
        result = code_usage(
            run,
            data,
            out,
            training=training,
            windows=windows,
            rows=rows,
            episodes=episodes,
            fps=fps,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
            on_progress=on_progress,
        )
    emit_text(result, _describe_codes(result), json=json)


def intervene(
    run: RunPath,
    data: DataPath,
    out: Out = None,
    variables: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            metavar="N",
            help="Variables to draw with all of their classes.",
            rich_help_panel=OUTPUT,
        ),
    ] = 6,
    frames: Annotated[
        int,
        typer.Option(min=1, max=64, metavar="N", help="Frames to change.", rich_help_panel=DATA),
    ] = 4,
    episodes: DrawnFrom = None,
    fps: Fps = 2.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw the effect of each discrete latent variable on the decoded image.

    One variable of the latent state of a frame is set to each class in use while the others stay,
    and the state is decoded. The map of a variable shows the pixels that it changes. In a video the
    variables run through their classes.

    \b
    Examples:
      wmtk viz intervene runs/catch catch.zarr codes-changed.png --variables 6
      wmtk viz intervene runs/catch catch.zarr codes-changed.mp4 --frames 6
    """
    from wmtk.viz import intervene

    with progress_bars() as on_progress:
        result = intervene(
            run,
            data,
            out,
            variables=variables,
            frames=frames,
            episodes=episodes,
            fps=fps,
            image=image,
            seed=seed,
            checkpoint=checkpoint,
            device=device,
            on_progress=on_progress,
        )
    effect = result.effect.tolist()
    strongest = sorted(range(len(effect)), key=lambda v: -effect[v])[:3]
    names = ", ".join(f"z{v} ({effect[v]:.1%})" for v in strongest)
    text = f"the variables with the largest effect on {result.image} are {names}"
    emit_text(result, f"{result.path}: {text}; {_size(result)}.", json=json)


def _describe(result: RolloutFile) -> str:
    windows = "; ".join(result.windows)
    return f"{result.path}: {windows} ({result.held_out}); {_size(result)}."


def _describe_codes(result: CodeUsageFile) -> str:
    usage, (V, K) = result.codes, result.codes.usage.shape
    frames = f"{human_count(usage.frames, 'frame')} ({result.held_out})"
    lines = [
        f"{result.path}: {V} variables of {K} classes in {frames}; {int(usage.dead.sum())} classes "
        f"({usage.dead_share:.0%}) are dead, mean perplexity {usage.perplexity.mean():.1f}, mean "
        f"distance between prior and posterior {result.distance.mean():.0%}; {_size(result)}."
    ]
    lines += [
        f"update {each.update:,}: {each.dead_share:.0%} dead, perplexity {each.perplexity:.1f}, "
        f"{each.information:.2f} nats, distance {each.distance:.0%}"
        for each in result.training
    ]
    return "\n".join(lines)


def _size(result: DrawnFile) -> str:
    return f"{result.width} × {result.height} pixels, {human_bytes(result.bytes)}"
