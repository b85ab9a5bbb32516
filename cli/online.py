"""`wmtk online`: train an agent while it collects its data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmtk.cli.common import console, process
from wmtk.cli.common.console import human_count, note, note_new_folders, warn
from wmtk.cli.common.env_options import echo, note_limits, task_options
from wmtk.cli.common.online_dashboard import dashboard, pace_of
from wmtk.cli.common.options import (
    COMPUTE,
    DATA,
    PRESET,
    TRAINING,
    Ablate,
    Device,
    EnvSettings,
    Explore,
    Json,
    ObsKeys,
    Preset,
    Resume,
    RunOut,
    Settings,
    TaskName,
    Timeout,
    TrustEnv,
    Workers,
    parse_settings,
    seed_option,
)
from wmtk.cli.common.run_options import existing_run, set_up, source_of, warn_of_collapse
from wmtk.cli.common.training_summary import online_record, render_online
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.envs import ResolvedTask
    from wmtk.runs.run_directory import Run


def online(
    task: TaskName,
    out: RunOut,
    preset: Preset = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Agent steps in total, random ones included.",
            show_default="20000, or 10 × online.prefill if larger",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    settings: Settings = None,
    ablate: Ablate = None,
    explore: Annotated[
        Explore | None,
        typer.Option(
            help="Collect with a second actor that maximizes the ensemble's disagreement.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Start from the model of this run, and from its policy if it has one.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="Dataset to train on as well; path=2 samples twice as often. Repeatable.",
            rich_help_panel=DATA,
        ),
    ] = None,
    env_settings: EnvSettings = None,
    obs_keys: ObsKeys = None,
    trust_env: TrustEnv = None,
    envs: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Parallel environments.",
            show_default="online.envs",
            rich_help_panel=COMPUTE,
        ),
    ] = None,
    workers: Workers = None,
    background: Annotated[
        bool,
        typer.Option(
            "--async",
            help="Collect in a separate process, in parallel with training.",
            rich_help_panel=COMPUTE,
        ),
    ] = False,
    timeout: Timeout = 60.0,
    device: Device = "auto",
    seed: Annotated[
        int | None, seed_option("Seed of weights, batches and episodes.", default="0")
    ] = None,
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Train an agent online: collect, train the model, train the policy, repeat.

    Random steps come first (online.prefill), then steps of the actor, with one update of the
    world model, the actor and the critic every few steps (online.train_every). At intervals the
    actor is evaluated with its most likely actions. The run directory is like that of wmtk
    train-policy, and contains the episodes as an ordinary dataset, RUN/replay.zarr, which other
    processes may read during training.

    Ctrl-C finishes the update, saves a checkpoint and exits with code 130; the same command with
    --resume continues, also after a crash. On resuming, omitted options keep their values, and a
    larger --steps trains for longer.

    With --async, the next steps are collected during an update. An update still waits for its
    steps, so the train ratio is the same. This helps if the environment is slow.

    \b
    Examples:
      wmtk online wmtk/Catch-v0 --out runs/catch --steps 10000
      wmtk online atari_pong --out runs/pong --preset atari --steps 2500000
      wmtk online dmc_cartpole_balance --out runs/cartpole --preset dmc_vision
      wmtk online atari_pong --out runs/warm --preset atari --init runs/model
      wmtk eval runs/catch
    """
    process.reserve_stdout()
    from wmtk.agent.device import choose_device
    from wmtk.envs.task_options import ENV_OPTIONS
    from wmtk.runs.run_directory import Run
    from wmtk.training.online.initialization import steps_of
    from wmtk.training.online.train import online as run
    from wmtk.training.run_setup import resolve_config

    chosen = choose_device(device)
    before = existing_run(out) if resume else None
    changes = parse_settings(settings or [])
    arguments = {"online.envs": envs, "behavior.explore": explore}
    changes |= {name: value for name, value in arguments.items() if value is not None}
    resolved = _resolve(task, task_options(env_settings, obs_keys), before, trust_env or [])
    for name in changes.keys() & ENV_OPTIONS:
        has, others = name in resolved.kwargs, ", ".join(resolved.kwargs)
        raise UsageError(
            f"{name} is an option of {'the' if has else 'another'} environment, not a setting.",
            f"Pass it as --env-set {name}={changes[name]}."
            if has
            else f"Options of {resolved.task}, for --env-set: {others}.",
        )
    origin = Run(init) if init and not before else None
    config = resolve_config(
        None, preset, ablate or [], changes, resumed=before, origin=origin, on_note=note
    )
    place = set_up(config, chosen)
    target = steps_of(before, config.online) if steps is None else steps
    echo(resolved, before.about["seed"] if before else seed or 0)
    sources = [source_of(text) for text in data or []]
    pace = f"one update every {pace_of(config.online)}"
    note(f"{_origin(before, preset, init)} on {place}; {pace}")
    note_limits(resolved, target, config.online.envs)
    note_new_folders(out)
    stop = process.StopOnSignal("Stopping; press Ctrl-C again to stop at once.")
    batch = config.data.batch_size * config.data.length
    with stop, dashboard(resolved.task, config.online, batch, target) as view:
        trained = run(
            resolved,
            out,
            config,
            steps=target,
            datasets=sources,
            init=init,
            seed=seed,
            device=chosen,
            resume=resume,
            workers=workers,
            background=background,
            timeout=timeout,
            on_progress=view.update,
            on_message=warn,
            on_note=note,
            stop=stop,
        )
    record = online_record(trained, config.online, target, view.last)
    console.emit(record, json=json, render=render_online)
    warn_of_collapse(trained)
    if not record["finished"]:
        note("Interrupted; a checkpoint is saved. To continue, add --resume to the same command.")
        raise typer.Exit(console.INTERRUPTED)


def _resolve(
    name: str, options: dict[str, Any], run: Run | None, trust_env: list[str]
) -> ResolvedTask:
    """The task with its options; a resumed run keeps options that are omitted."""
    from wmtk.collecting import task_of
    from wmtk.envs import resolve

    if run is None:
        return resolve(name, **options)
    return task_of(run.about["env"], name, options, trust_env=trust_env)


def _origin(run: Run | None, preset: str | None, init: Path | None) -> str:
    if run is not None:
        return f"settings of the run, from update {human_count(run.step)}"
    if init is not None and preset is None:
        return f"settings of {init}"
    return f"preset {preset or PRESET}"
