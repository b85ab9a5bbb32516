"""`wmtk train-model`: a world model from datasets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli import console
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.datasets import Source
    from wmtk.training.train_model import TrainProgress


def train_model(
    data: Annotated[
        list[str],
        typer.Argument(help="Datasets; path=2 gives one twice the weight.", metavar="DATA..."),
    ],
    out: Annotated[Path, typer.Option(help="The run directory to write.", show_default=False)],
    preset: Annotated[
        str, typer.Option(help="atari, dmc_vision, humanoid, montezuma or tiny.")
    ] = "tiny",
    steps: Annotated[int, typer.Option(min=1, help="Updates in all.")] = 10_000,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, such as model.kl_scale=0.3.")
    ] = None,
    ablate: Annotated[
        list[str] | None, typer.Option(help="An ablation of the paper, such as no-kl-balancing.")
    ] = None,
    val_fraction: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the episodes that is held out.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an existing run.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a world model on datasets.

    Example: wmtk train-model catch.zarr --out runs/catch --preset tiny --steps 2000

    The run directory has the settings, metrics.jsonl, TensorBoard files and checkpoints. Ctrl-C
    loses what came after the last checkpoint; the same command with --resume goes on from it.
    """
    from wmtk.training.device import choose_device
    from wmtk.training.presets import training_config
    from wmtk.training.train_model import train_model as run

    config = training_config(preset, tuple(ablate or ()), console.settings(overrides or []))
    chosen = choose_device(device)
    console.err.print(f"preset {preset} on {chosen}, seed {seed}", highlight=False)
    with console.progress("Training", steps, noun="update") as bar:

        def show(progress: TrainProgress) -> None:
            loss = progress.losses.get("train/loss/total")
            text = "Training" if loss is None else f"Training, loss {loss:.1f}"
            bar.update(completed=progress.step, description=text)

        made = run(
            [_source(text) for text in data],
            out,
            config,
            steps=steps,
            seed=seed,
            val_fraction=val_fraction,
            device=chosen,
            resume=resume,
            on_progress=show,
        )
    best = made.checkpoints.load("best" if made.checkpoints.pointer("best") else "latest")
    result = {"run": str(out), "steps": steps, "best": best.step, "held_out": best.state["best"]}
    console.emit(
        result,
        json=json,
        render=lambda r: (
            f"{r['run']}: {r['steps']} updates; the best by held-out loss is {r['best']}."
        ),
    )


def _source(text: str) -> Source:
    """`path` or `path=weight`."""
    from wmtk.datasets import Dataset, Source

    path, equals, weight = text.rpartition("=")
    if not equals or Path(text).exists():
        return Source(Dataset.open(text))
    try:
        return Source(Dataset.open(path), float(weight))
    except ValueError as error:
        raise UsageError(f"{weight!r} is no weight.", "Write path=2.5.") from error
