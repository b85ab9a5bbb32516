"""Options that the commands of `wmtk viz` have in common, and their progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wmtk.cli.common.console import Progress, progress
from wmtk.cli.common.options import DATA, OUTPUT, seed_option

CONTEXT, HORIZON, SAMPLES, WINDOWS = 5, 45, 5, 50  # wmtk.viz.windows, without importing numpy

# The units of progress, by the beginning of its description.
NOUNS = {
    "Predicting windows": "window",
    "Encoding windows": "window",
    "Computing metrics": "part",
    "Evaluating checkpoints": "checkpoint",
    "Changing codes": "code",
    "Drawing videos": "video",
    "Drawing": "frame",
    "Playing": "episode",
}

RunPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="The run directory of a trained model.")
]
PolicyPath = Annotated[
    Path, typer.Argument(metavar="RUN", help="The run directory of a trained policy.")
]
DataPath = Annotated[Path, typer.Argument(metavar="DATA", help="A dataset of the same task.")]
Out = Annotated[
    Path | None,
    typer.Argument(
        metavar="[OUT]",
        help="The .mp4, .webm, .gif or .png to write.",
        show_default="in the run directory",
    ),
]
Context = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Rows that the model observes.", rich_help_panel=DATA),
]
Horizon = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Rows that the model imagines.", rich_help_panel=DATA),
]
Samples = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Futures of each window.", rich_help_panel=DATA),
]
ShownSamples = Annotated[
    int,
    typer.Option(
        "--samples", min=1, max=8, metavar="N", help="Futures to show.", rich_help_panel=DATA
    ),
]
Rows = Annotated[
    int, typer.Option(min=2, metavar="N", help="Rows of each window.", rich_help_panel=DATA)
]
Windows = Annotated[
    int, typer.Option(min=1, metavar="N", help="Number of windows.", rich_help_panel=DATA)
]
DrawnFrom = Annotated[
    int | None,
    typer.Option(
        "--episodes",
        min=1,
        metavar="N",
        help="Episodes to take the windows from, at most.",
        show_default="all",
        rich_help_panel=DATA,
    ),
]
ShownEpisodes = Annotated[
    int,
    typer.Option(
        "--episodes", min=1, max=64, metavar="N", help="Episodes to show.", rich_help_panel=DATA
    ),
]
Columns = Annotated[
    int,
    typer.Option(
        "--frames",
        min=2,
        max=60,
        metavar="N",
        help="Frames per row of an image.",
        rich_help_panel=OUTPUT,
    ),
]
ImageKey = Annotated[
    str | None,
    typer.Option(
        "--image",
        metavar="KEY",
        help="Observation key to show.",
        show_default="the first image",
        rich_help_panel=OUTPUT,
    ),
]
Chart = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Image file for the curves.", rich_help_panel=OUTPUT),
]
Sample = Annotated[
    bool, typer.Option("--sample", help="Sample actions instead of taking the most likely ones.")
]
Seed = Annotated[int, seed_option("Seed of windows, latents and intervals.")]


@contextmanager
def progress_bars() -> Iterator[Callable[[str, int, int], None]]:
    """The `on_progress` of the functions of `wmtk.viz`: one bar after the other."""
    with ExitStack() as stack:
        current: tuple[str, Progress] | None = None

        def show(description: str, done: int, total: int) -> None:
            nonlocal current
            if current is None or current[0] != description:
                stack.close()
                noun = next(n for start, n in NOUNS.items() if description.startswith(start))
                bar = stack.enter_context(progress(description, total, noun=noun))
                current = description, bar
            current[1].update(completed=done, total=total)

        yield show
