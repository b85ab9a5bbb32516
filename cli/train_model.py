"""`wmtk train-model`: a world model from datasets."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import console
from wmtk.cli.common.console import human_count, note
from wmtk.cli.common.options import (
    COMPUTE,
    DATA,
    PRESET,
    Ablate,
    Device,
    Json,
    ObsKeys,
    Preset,
    Resume,
    RunOut,
    Settings,
    TrustEnv,
    Updates,
    parse_settings,
    seed_option,
)
from wmtk.cli.common.process import StopOnSignal
from wmtk.cli.common.run_options import (
    existing_run,
    require_used,
    set_up,
    source_of,
    warn_of_collapse,
)
from wmtk.cli.common.training_summary import model_record, render_model

if TYPE_CHECKING:
    from wmtk.datasets import Source
    from wmtk.training.loop import TrainProgress

SECTIONS = ("model", "optimizer", "data", "logging", "precision", "compile")


class Precision(StrEnum):
    """Floating-point format of encoders, decoders and heads."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def train_model(
    data: Annotated[
        list[str],
        typer.Argument(help="Datasets; path=2 samples from path twice as often.", metavar="DATA"),
    ],
    out: RunOut,
    preset: Preset = None,
    updates: Updates = None,
    settings: Settings = None,
    ablate: Ablate = None,
    val_fraction: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=0.9,
            metavar="SHARE",
            help="Share of the episodes held out for validation.",
            show_default="0.1",
            rich_help_panel=DATA,
        ),
    ] = None,
    min_return: Annotated[
        float | None,
        typer.Option(help="Use episodes with at least this return.", rich_help_panel=DATA),
    ] = None,
    max_return: Annotated[
        float | None,
        typer.Option(help="Use episodes with at most this return.", rich_help_panel=DATA),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Use episodes of this policy; * matches any text.",
            rich_help_panel=DATA,
        ),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Read this tagged version of the datasets.", rich_help_panel=DATA
        ),
    ] = None,
    obs_keys: ObsKeys = None,
    trust_env: TrustEnv = None,
    device: Device = "auto",
    precision: Annotated[
        Precision | None,
        typer.Option(
            metavar="FORMAT",
            help="Format of encoders, decoders and heads: auto, float32, bfloat16 or float16.",
            show_default="auto",
            rich_help_panel=COMPUTE,
        ),
    ] = None,
    compiled: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Use torch.compile.",
            show_default="no",
            rich_help_panel=COMPUTE,
        ),
    ] = None,
    seed: Annotated[int | None, seed_option("Seed of weights and batches.", default="0")] = None,
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Train a world model on datasets.

    The run directory receives the settings, metrics.jsonl, TensorBoard files, images of predictions
    and checkpoints. Held-out episodes separate learning from memorizing. At the end a short
    verdict states whether the model is good enough to train a policy in it.

    Ctrl-C finishes the update, saves a checkpoint and exits with code 130; the same command with
    --resume continues, with the same result as an uninterrupted run. On resuming, omitted options
    keep their values, and a larger --updates trains for longer.

    \b
    Examples:
      wmtk train-model catch.zarr --out runs/catch --updates 2000
      wmtk train-model pong.zarr --out runs/pong --preset atari
      wmtk train-model random.zarr expert.zarr=3 --out runs/mix
      wmtk train-model catch.zarr --out runs/catch --resume --updates 4000
      tensorboard --logdir runs
    """
    from wmtk.agent.device import choose_device
    from wmtk.cli.common.verdict_text import short_verdict
    from wmtk.training.model_stage import train_model as run
    from wmtk.training.run_setup import resolve_config, updates_of

    chosen = choose_device(device)
    before = existing_run(out) if resume else None
    changes = parse_settings(settings or [])
    require_used(changes, SECTIONS, "train-model")
    changes |= {} if precision is None else {"precision": precision.value}
    changes |= {} if compiled is None else {"compile": compiled}
    changes |= {} if obs_keys is None else {"data.obs_keys": obs_keys}
    config = resolve_config(None, preset, ablate or [], changes, resumed=before, on_note=note)
    place = set_up(config, chosen)
    target = updates_of(before, updates)
    started_at = before.step if before else 0
    if before and before.kind == "model" and started_at >= target:
        done = human_count(started_at, "update")
        note(f"{out} is finished: it has {done}. A larger --updates continues it.")
        console.emit(model_record(before), json=json, render=render_model)
        return
    sources = [source_of(text, tag, min_return, max_return, policy) for text in data]
    _describe_sources(sources)
    origin = "settings of the run" if before else f"preset {preset or PRESET}"
    number = before.about["seed"] if before else seed or 0
    note(f"{origin} on {place}, seed {number}")
    stop = StopOnSignal("Stopping after this update; press Ctrl-C again to stop at once.")
    with stop, console.progress("Training", target, noun="update", started_at=started_at) as bar:
        trained = run(
            sources,
            out,
            config,
            updates=target,
            seed=seed,
            val_fraction=val_fraction,
            device=chosen,
            resume=resume,
            trust_env=trust_env or [],
            on_progress=lambda p: bar.update(completed=p.step, description=_describe(p)),
            on_note=note,
            stop=stop,
        )
    record = model_record(trained)
    if trained.step >= target:
        record["verdict"] = short_verdict(trained, config.behavior.horizon, chosen)
    console.emit(record, json=json, render=render_model)
    warn_of_collapse(trained)
    if trained.step < target:
        note("Interrupted; a checkpoint is saved. To continue, add --resume to the same command.")
        raise typer.Exit(console.INTERRUPTED)


def _describe_sources(sources: list[Source]) -> None:
    total = sum(source.weight for source in sources)
    for source in sources:
        table = source.table()
        counts = human_count(len(table), "episode"), human_count(table.steps, "step")
        share = f", {source.weight / total:.0%} of the windows" if len(sources) > 1 else ""
        note(f"{console.short_path(source.dataset.path)}: {', '.join(counts)}{share}")


def _describe(progress: TrainProgress) -> str:
    if not progress.losses:
        return "Training"
    loss, *terms = (f"{name} {value:.3g}" for name, value in progress.losses.items())
    waiting = f", {progress.waiting:.0%} waiting for data" if progress.waiting > 0.1 else ""
    return f"{loss} ({', '.join(terms)}){waiting}"
