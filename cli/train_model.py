"""`wmtk train-model`: a world model from datasets."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmtk.cli.common import console
from wmtk.cli.common.console import human_count
from wmtk.cli.common.env_options import ObsKeys, TrustEnv
from wmtk.cli.common.model_verdict import short_verdict, short_verdict_text
from wmtk.cli.common.run_options import (
    PRESET,
    comparison_of,
    config_of,
    existing_run,
    require_used,
    say,
    set_up,
    source_of,
    steps_of,
    warn_of_collapse,
)
from wmtk.cli.common.signals import StopOnSignal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from wmtk.datasets import Source
    from wmtk.runs.run_directory import Run
    from wmtk.training.loop import TrainProgress

STEPS = 10_000
SECTIONS = ("model", "optimizer", "data", "logging", "precision", "compile")


class Precision(StrEnum):
    """How many bits encoders, decoders and heads compute with."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def train_model(
    data: Annotated[
        list[str],
        typer.Argument(help="Datasets; path=2 is drawn from twice as often.", metavar="DATA..."),
    ],
    out: Annotated[Path, typer.Option(help="The run directory to write.", show_default=False)],
    preset: Annotated[
        str | None,
        typer.Option(help="atari, dmc_vision, humanoid, montezuma or tiny.", show_default=PRESET),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Updates in all.", show_default=str(STEPS))
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, such as model.kl_scale=0.3.")
    ] = None,
    ablate: Annotated[
        list[str] | None, typer.Option(help="An ablation of the paper, such as no-kl-balancing.")
    ] = None,
    obs_keys: ObsKeys = None,
    val_fraction: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.9, help="Share of the episodes that is held out.", show_default="0.1"
        ),
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Read this tagged version of the datasets.")
    ] = None,
    min_return: Annotated[float | None, typer.Option(help="Lowest return to learn from.")] = None,
    max_return: Annotated[float | None, typer.Option(help="Highest return to learn from.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="Learn from this policy's episodes; * fits all.")
    ] = None,
    trust_env: TrustEnv = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=console.MAX_SEED, help="Of weights and batches.", show_default="0"),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[
        Precision | None, typer.Option(help="Of encoders, decoders, heads.", show_default="auto")
    ] = None,
    compiled: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="Use torch.compile.", show_default="no"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run if it is there already.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a world model on datasets.

    The run directory gets the settings, metrics.jsonl, TensorBoard files, pictures of what the
    model predicts, and checkpoints. Some episodes are held out to tell learning from memorizing.
    At the end, a short verdict says whether a policy can be trained in the model.

    Ctrl-C finishes the update, saves a checkpoint and exits with code 130; the same command with
    --resume goes on as if nothing had happened. On resuming, settings that are not given stay as
    they are, and a larger --steps trains for longer.

    \b
    Examples:
      wmtk train-model catch.zarr --out runs/catch --steps 2000
      wmtk train-model pong.zarr --out runs/pong --preset atari --set data.batch_size=16
      wmtk train-model random.zarr expert.zarr=3 --out runs/mix --min-return 0
      wmtk train-model catch.zarr --out runs/catch --steps 4000 --resume
      tensorboard --logdir runs
    """
    from wmtk.agent.device import choose_device
    from wmtk.training.model_stage import train_model as run

    chosen = choose_device(device)
    before = existing_run(out) if resume else None
    changes = console.settings(overrides or [])
    require_used(changes, SECTIONS, "train-model")
    changes |= {} if precision is None else {"precision": precision.value}
    changes |= {} if compiled is None else {"compile": compiled}
    changes |= {} if obs_keys is None else {"data.obs_keys": obs_keys}
    config = config_of(before, preset, ablate or [], changes)
    place = set_up(config, chosen)
    wanted = steps or steps_of(before, STEPS)
    begun_at = before.step if before else 0
    if before and before.kind == "model" and begun_at >= wanted:
        done = human_count(begun_at, "update")
        say(f"{out} is finished: it has {done}. A larger --steps would go on with it.")
        console.emit(_result(before), json=json, render=_render)
        return
    sources = [source_of(text, tag, min_return, max_return, policy) for text in data]
    _echo(sources)
    origin = "settings as before" if before else f"preset {preset or PRESET}"
    number = before.about["seed"] if before else seed or 0
    say(f"{origin} on {place}, seed {number}")
    stopping = StopOnSignal("Stopping after this update; once more ends at once.")
    with stopping, console.progress("Training", wanted, noun="update", begun_at=begun_at) as bar:
        made = run(
            sources,
            out,
            config,
            updates=wanted,
            seed=seed,
            val_fraction=val_fraction,
            device=chosen,
            resume=resume,
            trust_env=trust_env or [],
            on_progress=lambda p: bar.update(completed=p.step, description=_describe(p)),
            on_note=say,
            stop=lambda: stopping.asked,
        )
    result = _result(made)
    if made.step >= wanted:
        result["verdict"] = short_verdict(made, config.behavior.horizon, chosen)
    console.emit(result, json=json, render=_render)
    warn_of_collapse(made)
    if made.step < wanted:
        say("Interrupted; everything is saved. To go on, add --resume to the same command.")
        raise typer.Exit(console.INTERRUPTED)


# --- what is said ---


def _echo(sources: list[Source]) -> None:
    total = sum(source.weight for source in sources)
    for source in sources:
        table = source.table()
        counts = human_count(len(table), "episode"), human_count(table.steps, "step")
        share = f", {source.weight / total:.0%} of the windows" if len(sources) > 1 else ""
        say(f"{console.short_path(source.dataset.path)}: {', '.join(counts)}{share}")


def _describe(progress: TrainProgress) -> str:
    if not progress.losses:
        return "Training"
    loss, *terms = (f"{name} {value:.3g}" for name, value in progress.losses.items())
    waiting = f", {progress.waiting:.0%} waiting for data" if progress.waiting > 0.1 else ""
    return f"{loss} ({', '.join(terms)}){waiting}"


def _result(run: Run) -> dict[str, Any]:
    """What came of a run: its last held-out losses, and those of its best checkpoint."""
    from wmtk.runs.metrics_log import read_metrics

    held = [r for r in read_metrics(run.path) if r.get("val/loss/total") is not None]
    best = run.checkpoints.step_of("best")
    return {
        "run": console.short_path(run.path),
        "steps": run.step,
        "held_out": held[-1] if held else None,
        "best": best,
        "best_held_out": next((r for r in held if r["step"] == best), None),
        "comparison": comparison_of(run),
        "verdict": None,
    }


def _render(result: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")  # what is cut off cannot be copied
    table.add_row("run", result["run"])
    table.add_row("updates", human_count(result["steps"]))
    if result["held_out"]:
        table.add_row("held out", _loss(result["held_out"]))
    if result["best_held_out"]:
        table.add_row("best", _loss(result["best_held_out"]))
    if result["comparison"]:
        table.add_row("data", result["comparison"]["sentence"])
    table.add_row("look", f"tensorboard --logdir {result['run']}")
    table.add_row("use", f'wmtk.load("{result["run"]}")')
    short = result["verdict"]
    return table if short is None else Group(table, *short_verdict_text(short))


def _loss(report: dict[str, Any]) -> str:
    """The held-out loss of an update, and how good its images are."""
    loss = report["val/loss/constant_free"]
    images = [f"{v:.1f} dB" for name, v in report.items() if name.startswith("val/psnr/") and v]
    psnr = f", images {' and '.join(images)}" if images else ""
    return f"loss {loss:.4g} without constants{psnr}, at update {human_count(report['step'])}"
