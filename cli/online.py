"""`wmtk online`: an agent that plays and learns at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wmtk.cli.common import console, stdout
from wmtk.cli.common.console import human_count
from wmtk.cli.common.env_options import (
    ObsKeys,
    TrustEnv,
    echo,
    say_limits,
    say_new_folders,
    task_options,
    warn,
)
from wmtk.cli.common.online_dashboard import pace_of, showing
from wmtk.cli.common.online_summary import result_of, show_result
from wmtk.cli.common.run_options import (
    PRESET,
    config_of,
    existing_run,
    say,
    set_up,
    source_of,
    warn_of_collapse,
)
from wmtk.cli.common.signals import StopOnSignal
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from wmtk.envs import ResolvedTask
    from wmtk.runs.run_directory import Run

STEPS = 20_000
PREFILLS = 10  # the default is also at least so many times the random steps
DEFAULT = f"{STEPS:,}, or {PREFILLS} × online.prefill if that is more"


def online(
    task: Annotated[
        str, typer.Argument(help="atari_<game>, dmc_<domain>_<task>, a gymnasium id, module:Id.")
    ],
    out: Annotated[Path, typer.Option(help="The run directory to write.", show_default=False)],
    preset: Annotated[
        str | None,
        typer.Option(help="atari, dmc_vision, humanoid, montezuma or tiny.", show_default=PRESET),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=0, help="Agent steps in all, random ones too.", show_default=DEFAULT),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="A dataset to learn from as well; path=2 is drawn from twice as often."),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="A run whose model, and policy if it has one, to start with."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, such as online.train_every=5.")
    ] = None,
    explore: Annotated[
        Literal["disagreement"] | None,
        typer.Option(help="Play with a second actor, which seeks what the model does not know."),
    ] = None,
    ablate: Annotated[
        list[str] | None, typer.Option(help="An ablation of the paper, such as no-kl-balancing.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--task-set", help="An option of the task, such as sticky=0."),
    ] = None,
    trust_env: TrustEnv = None,
    obs_keys: ObsKeys = None,
    envs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Environments that play side by side.", show_default="online.envs"
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes they are spread over; 0 is this one.", show_default="cores"
        ),
    ] = None,
    background: Annotated[
        bool, typer.Option("--async", help="Play in a process of its own while this one learns.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds without a step after which a worker is replaced."),
    ] = 60.0,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=console.MAX_SEED, help="Of weights, batches and episodes.", show_default="0"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run if it is there already.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Play a task and learn it at the same time.

    First comes random play, then play by the actor, with updates of the world model and of the
    behavior in between: one every so many steps (online.train_every). Every so often the actor is
    tested with its most likely actions. The run directory is one of wmtk train-policy with the
    episodes in it, RUN/replay.zarr, an ordinary dataset that others may read meanwhile.

    Ctrl-C finishes the update, saves a checkpoint and exits with code 130; the same command with
    --resume goes on, also after a crash. On resuming, settings that are not given stay as they
    are, and a larger --steps plays for longer.

    With --async, steps are played while the last ones are learned from; an update still waits for
    its steps, so that the train ratio is the same. It helps where an environment is slow.

    \b
    Examples:
      wmtk online wmtk/Catch-v0 --out runs/catch --steps 10000
      wmtk online atari_pong --out runs/pong --preset atari --steps 2500000
      wmtk online dmc_cartpole_balance --out runs/cartpole --preset dmc_vision --steps 50000
      wmtk online atari_pong --out runs/warm --preset atari --data pong.zarr --init runs/model
      wmtk eval runs/catch
    """
    stdout.reserve()
    from wmtk.agent.device import choose_device
    from wmtk.envs.options import ENV_OPTIONS
    from wmtk.runs.run_directory import Run
    from wmtk.training.online.initialization import steps_of
    from wmtk.training.online.train import online as run

    chosen = choose_device(device)
    before = existing_run(out) if resume else None
    changes = console.settings(overrides or [])
    chosen_here = {"online.envs": envs, "behavior.explore": explore}
    changes |= {name: value for name, value in chosen_here.items() if value is not None}
    resolved = _resolve(task, options or [], obs_keys, before, trust_env or [])
    for name in changes.keys() & ENV_OPTIONS:
        has, others = name in resolved.kwargs, ", ".join(resolved.kwargs)
        raise UsageError(
            f"{name} is an option of {'the' if has else 'another'} environment, not a setting.",
            f"Pass it as --task-set {name}={changes[name]}."
            if has
            else f"Options of {resolved.task}, to be passed with --task-set: {others}.",
        )
    origin = Run(init) if init and not before else None
    config = config_of(before, preset, ablate or [], changes, origin)
    place = set_up(config, chosen)
    wanted = steps_of(before, config.online) if steps is None else steps
    echo(resolved, before.about["seed"] if before else seed or 0)
    sources = [source_of(text) for text in data or []]
    pace = f"one update every {pace_of(config.online)}"
    say(f"{_origin(before, preset, init)} on {place}; {pace}")
    say_limits(resolved, "--task-set", wanted, config.online.envs)
    say_new_folders(out)
    stopping = StopOnSignal("Stopping; once more ends at once.")
    batch = config.data.batch_size * config.data.length
    with stopping, showing(resolved.task, config.online, batch, wanted) as view:
        made = run(
            resolved,
            out,
            config,
            steps=wanted,
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
            on_note=say,
            stop=lambda: stopping.asked,
        )
    result = result_of(made, config.online, wanted, view.last)
    console.emit(result, json=json, render=show_result)
    warn_of_collapse(made)
    if not result["finished"]:
        say("Interrupted; everything is saved. To go on, add --resume to the same command.")
        raise typer.Exit(console.INTERRUPTED)


def _resolve(
    name: str, options: list[str], obs_keys: str | None, run: Run | None, trust_env: list[str]
) -> ResolvedTask:
    """The task with its options; a run that is resumed keeps those that are not given."""
    from wmtk.collecting import task_of
    from wmtk.envs import resolve

    changes = task_options(options, obs_keys, "--task-set")
    if run is None:
        return resolve(name, **changes)
    return task_of(run.about["env"], name, changes, trust_env=trust_env)


def _origin(run: Run | None, preset: str | None, init: Path | None) -> str:
    if run is not None:
        return f"settings as before, from update {human_count(run.step)}"
    if init is not None and preset is None:
        return f"settings of {init}"
    return f"preset {preset or PRESET}"
