"""`wmtk train-policy`: an actor and a critic inside a trained world model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import console, process
from wmtk.cli.common.console import human_count, note
from wmtk.cli.common.options import (
    TASK,
    TRAINING,
    Ablate,
    Checkpoint,
    Device,
    Explore,
    Json,
    Resume,
    RunOut,
    Settings,
    TrustEnv,
    Updates,
    parse_settings,
    seed_option,
)
from wmtk.cli.common.run_options import existing_run, require_used, set_up, source_of
from wmtk.cli.common.training_summary import policy_record, render_policy

if TYPE_CHECKING:
    from wmtk.runs.run_directory import Run
    from wmtk.training.loop import TrainProgress

SECTIONS = ("behavior", "data", "logging", "precision", "compile")


def train_policy(
    model: Annotated[
        Path, typer.Argument(help="The run directory of a world model.", metavar="MODEL_RUN")
    ],
    out: RunOut,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Datasets with the start states of imagination; path=2 samples twice as often.",
            metavar="DATA",
            show_default="the model's",
        ),
    ] = None,
    updates: Updates = None,
    settings: Settings = None,
    ablate: Ablate = None,
    penalty: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="P",
            help="Subtract P × the ensemble's disagreement from imagined rewards.",
            show_default="0",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    explore: Annotated[
        Explore | None,
        typer.Option(
            help="Train a second actor that maximizes the ensemble's disagreement.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    checkpoint: Checkpoint = "latest",
    test: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Episodes of the task to evaluate on at the end; 0 for none.",
            rich_help_panel=TASK,
        ),
    ] = 10,
    trust_env: TrustEnv = None,
    device: Device = "auto",
    seed: Annotated[int | None, seed_option("Seed of weights and batches.", default="0")] = None,
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Train an actor and a critic inside a world model.

    Both learn from imagined trajectories that start in states of the recorded data; the model is
    frozen. The run directory contains a copy of the model, so the policy can be used on its own:
    with wmtk collect --policy RUN, or wmtk.load(RUN).policy(obs). The settings are those of the
    model's run; --set changes those that begin with behavior, data and logging.

    A policy trained for long in a frozen model exploits the errors of the model. The disagreement
    of an ensemble of predictors is large where data is scarce: --penalty subtracts it from imagined
    rewards, and --explore disagreement trains an actor that maximizes it, to collect such data. At
    the end the policy is evaluated in the environment, and its return is shown beside the return
    that the critic expected.

    Ctrl-C finishes the update, saves a checkpoint and exits with code 130; the same command with
    --resume continues, with the same result as an uninterrupted run.

    \b
    Examples:
      wmtk train-policy runs/catch --out runs/policy --updates 5000
      wmtk train-policy runs/pong --out runs/lively --set behavior.entropy=3e-3
      wmtk train-policy runs/pong --out runs/careful --penalty 10
      wmtk train-policy runs/pong --out runs/curious --explore disagreement
      wmtk train-policy runs/pong expert.zarr --out runs/pong-policy
      wmtk collect wmtk/Catch-v0 --policy runs/policy --out new.zarr --episodes 20
    """
    process.reserve_stdout()
    from wmtk.agent.device import choose_device
    from wmtk.runs.run_directory import Run
    from wmtk.training.policy_stage import train_policy as run
    from wmtk.training.run_setup import resolve_config, updates_of
    from wmtk.version import code_version

    chosen = choose_device(device)
    before = existing_run(out) if resume else None
    changes = parse_settings(settings or [])
    require_used(changes, SECTIONS, "train-policy")
    options = {"behavior.penalty": penalty, "behavior.explore": explore}
    changes |= {name: value for name, value in options.items() if value is not None}
    origin = None if before else Run(model)
    config = resolve_config(None, None, ablate or [], changes, resumed=before, origin=origin)
    set_up(config, chosen)
    target = updates_of(before, updates)
    started_at = before.step if before else 0
    if before and started_at >= target and not (test and _evaluation_due(before)):
        done = human_count(started_at, "update")
        note(f"{out} is finished: it has {done}. A larger --updates continues it.")
        console.emit(policy_record(before), json=json, render=render_policy)
        return
    sources = [source_of(text) for text in data] if data else None
    note(f"model {model}, checkpoint {checkpoint}, on {chosen}, wmtk {code_version()}")
    stop = process.StopOnSignal("Stopping after this update; press Ctrl-C again to stop at once.")
    with stop, console.progress("Training", target, noun="update", started_at=started_at) as bar:
        trained = run(
            model,
            out,
            config,
            updates=target,
            datasets=sources,
            checkpoint=checkpoint,
            seed=seed,
            device=chosen,
            resume=resume,
            episodes=test,
            trust_env=trust_env or [],
            on_progress=lambda p: bar.update(completed=p.step, description=_describe(p)),
            on_message=note,
            on_note=note,
            stop=stop,
        )
    console.emit(policy_record(trained), json=json, render=render_policy)
    if trained.step < target or _evaluation_due(trained):
        note("Interrupted; a checkpoint is saved. To continue, add --resume to the same command.")
        raise typer.Exit(console.INTERRUPTED)


def _evaluation_due(run: Run) -> bool:
    """Whether the evaluation at the end of a run was interrupted."""
    state = run.state()
    return state is not None and state.owes_test


def _describe(progress: TrainProgress) -> str:
    losses = [f"{name} {value:.3g}" for name, value in progress.losses.items()]
    return f"Training: {', '.join(losses)}" if losses else "Training"
