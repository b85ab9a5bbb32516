"""`wmtk viz dream`: a policy inside of its world model."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.options import Json
from wmtk.cli.viz.image_commands import Columns, Drawn, Episodes, draw, tell
from wmtk.cli.viz.window_options import (
    CONTEXT,
    HORIZON,
    Checkpoint,
    Context,
    Device,
    Fps,
    ImageKey,
    Out,
    Seed,
    data_of,
    open_look,
    out_or_usual,
    require_out,
)

if TYPE_CHECKING:
    from wmtk.stats import Numbers


@dataclass(frozen=True)
class DreamReport(Drawn):
    context: int
    horizon: int
    samples: int
    sampled_actions: bool
    brought: list[Numbers]  # (S,) of each start: imagined rewards and the last value, discounted
    expected: list[Numbers]  # (S,) of each start: the critic at the first imagined row


def dream(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The run directory of a trained policy.")
    ],
    out: Out = None,
    data: Annotated[
        Path | None,
        typer.Option(help="The dataset to start from.", show_default="what the run learned from"),
    ] = None,
    context: Context = CONTEXT,
    horizon: Annotated[int, typer.Option(min=1, help="Steps that it dreams.")] = HORIZON,
    samples: Annotated[int, typer.Option(min=1, max=8, help="Dreams to show of each start.")] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw actions instead of taking the likeliest.")
    ] = False,
    episodes: Episodes = 3,
    frames: Columns = 12,
    fps: Fps = 8.0,
    image: ImageKey = None,
    seed: Seed = 0,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Draw what a policy dreams: it acts inside of its world model, from recorded starts.

    The model sees the first rows of a window, in green. Then the policy acts and the model
    imagines what comes of it, in red: nothing of that was recorded. Below are the rewards and ends
    that are imagined, and what the critic expects. A policy that exploits errors of its model is
    seen to: things happen in its dreams that the task does not have.

    \b
    Examples:
      wmtk viz dream runs/catch-policy                         into runs/catch-policy/videos
      wmtk viz dream runs/catch-policy dream.png --horizon 20
      wmtk viz dream runs/catch-policy dreams.gif --samples 4 --episodes 1
      wmtk viz dream runs/catch-policy dream.mp4 --data other.zarr
    """
    from wmtk.agent.load import LoadedAgent
    from wmtk.errors import RunError
    from wmtk.runs.run_directory import Run
    from wmtk.viz.draw.episode_view import view_of
    from wmtk.viz.rollouts import policy_rollouts
    from wmtk.viz.windows import read_windows

    require_out(out)
    look = open_look(
        run,
        data or data_of(Run(run)),
        context=context,
        horizon=1,
        count=episodes,
        seed=seed,
        checkpoint=checkpoint,
        device=device,
    )
    if not isinstance(look.model, LoadedAgent):
        raise RunError(
            f"{run} is a {look.model.run.kind} run: it has no actor that could dream.",
            f"Train one: wmtk train-policy {shlex.quote(str(run))} --out …",
        )
    found = policy_rollouts(
        look.model,
        read_windows(look.dataset, look.windows, context),
        horizon=horizon,
        samples=samples,
        sample=sample,
        seed=seed,
        actions=view_of(look.dataset).actions,
    )
    rollouts = [one.rollout for one in found]
    target = out_or_usual(out, look.model, "dream", still=False)
    drawn = draw(look, rollouts, target, "Dreams", frames, fps, image, seed)
    report = DreamReport(
        **vars(drawn),
        context=context,
        horizon=horizon,
        samples=samples,
        sampled_actions=sample,
        brought=[one.imagined_return for one in found],
        expected=[one.value for one in found],
    )
    brought, expected = (
        sum(float(numbers.mean()) for numbers in part) / len(found)
        for part in (report.brought, report.expected)
    )
    more = (
        f" The dreams bring {brought:.3g} on average, discounted and with the critic's value at "
        f"their end; it expected {expected:.3g}."
    )
    tell(report, more, json=json)
