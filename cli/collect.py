"""`wmtk collect`: episodes of a task, as a dataset."""

from __future__ import annotations

import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import console, process
from wmtk.cli.common.console import human_count, note, note_new_folders, warn
from wmtk.cli.common.env_options import echo, note_limits, task_options
from wmtk.cli.common.options import (
    OUTPUT,
    POLICY,
    Envs,
    EnvSettings,
    Explore,
    Json,
    ObsKeys,
    TaskName,
    Timeout,
    Workers,
    seed_option,
)
from wmtk.cli.viz.serve_command import PORT, NoOpen, Port, collect_human
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from wmtk.collecting import CollectReport, RolloutProgress
    from wmtk.envs import ResolvedTask


def collect(
    task: TaskName,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DATA",
            help="The dataset to write.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ],
    steps: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Agent steps; the last episodes are completed."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of episodes.")
    ] = None,
    human: Annotated[
        bool, typer.Option("--human", help="Act yourself, in the browser, until Ctrl-C.")
    ] = False,
    policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY",
            help="random, a run directory with a policy, or package.module:function from "
            "observation to action.",
            rich_help_panel=POLICY,
        ),
    ] = "random",
    explore: Annotated[
        Explore | None,
        typer.Option(
            help="Use the exploring actor of a run trained with this option.",
            rich_help_panel=POLICY,
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(min=0, max=1, help="Fraction of random actions.", rich_help_panel=POLICY),
    ] = 0.0,
    env_settings: EnvSettings = None,
    obs_keys: ObsKeys = None,
    store_info: Annotated[
        str,
        typer.Option(
            metavar="KEYS",
            help="Keys of the environment's info to store, separated by commas.",
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    append: Annotated[
        bool,
        typer.Option("--append", help="Append to an existing dataset.", rich_help_panel=OUTPUT),
    ] = False,
    capacity: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Most steps to store; beyond it the oldest episodes are evicted, now and later.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    envs: Envs = 4,
    workers: Workers = None,
    timeout: Timeout = 60.0,
    seed: Annotated[
        int | None, seed_option("The same seed gives the same dataset.", default="random")
    ] = None,
    json: Json = False,
    port: Port = PORT,
    no_open: NoOpen = False,
) -> None:
    """Collect episodes of a task into a dataset.

    Pass exactly one of --steps, --episodes and --human. Actions are random unless --policy names a
    trained run or a function.

    Ctrl-C commits complete episodes and exits with code 130; the same command with --append
    continues.

    \b
    Examples:
      wmtk collect atari_pong --out pong.zarr --steps 20000 --seed 0
      wmtk collect dmc_walker_walk --out w.zarr --steps 5000 --env-set repeat=2
      wmtk collect wmtk/Catch-v0 --out new.zarr --steps 500 --policy runs/catch
      wmtk collect wmtk/Catch-v0 --out mine.zarr --human
    """
    process.reserve_stdout()
    from wmtk.agent.collect_task import collect as run

    env_options = task_options(env_settings, obs_keys)
    keys = [key.strip() for key in store_info.split(",") if key.strip()]
    if human and steps is None and episodes is None:
        collect_human(
            task,
            out,
            keys,
            env_options,
            seed,
            capacity,
            append=append,
            port=port,
            no_open=no_open,
        )
        return
    if human or (steps is None) == (episodes is None):
        raise UsageError(
            "The amount to collect is missing or ambiguous.",
            "Pass exactly one of --steps, --episodes and --human.",
        )
    seed = secrets.randbelow(2**31) if seed is None else seed

    def start(resolved: ResolvedTask) -> None:
        echo(resolved, seed)
        note_new_folders(out)
        note_limits(resolved, steps, envs)

    def describe(progress: RolloutProgress) -> str:
        mean = f", mean return {progress.mean_return:.1f}" if progress.episodes else ""
        return f"Collecting {task}{mean}"

    noun = "step" if steps else "episode"
    signal.signal(signal.SIGTERM, process.interrupt)
    with console.progress(f"Collecting {task}", steps or episodes, noun=noun) as bar:
        report = run(
            task,
            out,
            steps=steps,
            episodes=episodes,
            policy=policy,
            explore=explore is not None,
            epsilon=epsilon,
            envs=envs,
            workers=workers,
            seed=seed,
            append=append,
            capacity=capacity,
            store_info=keys,
            env_options=env_options,
            timeout=timeout,
            on_start=start,
            on_progress=lambda p: bar.update(
                completed=p.steps_taken if steps else p.episodes, description=describe(p)
            ),
            on_message=warn,
        )
    console.emit(report, json=json, render=_render)
    if report.interrupted:
        target, done = (steps, report.steps) if steps else (episodes, report.episodes)
        rest = max((target or 0) - done, 1)
        # A repeated option takes its last value, so the command can be extended at its end.
        note(
            "Interrupted; complete episodes are stored. To continue, run the same command with "
            f"these options added at its end:\n--{noun}s {rest} --append"
        )
        raise typer.Exit(console.INTERRUPTED)


def _stored(report: CollectReport, capacity: int) -> str:
    """The size of the dataset, and why it differs from the capacity."""
    size = f"{human_count(report.kept_steps)} steps, {human_count(report.kept_episodes, 'episode')}"
    if report.kept_steps > capacity:
        return f"{size}: the newest episode stays whole, though the capacity is {capacity:,}"
    return f"{size}: the capacity is {capacity:,}, and the oldest episodes are evicted whole"


def _render(report: CollectReport) -> Table:
    from rich.table import Table

    table = Table(show_header=False, box=None)
    rows = {
        "dataset": f"{report.path} (version {report.version})",
        "episodes": human_count(report.episodes),
        "agent steps": human_count(report.steps),
        "frames": human_count(report.frames),
        "return": f"{report.mean_return:.2f} ± {report.std_return:.2f}" if report.episodes else "–",
        "speed": f"{human_count(report.steps_per_second, 'step')}/s",
        "seed": str(report.seed),
    }
    if report.capacity is not None:
        rows["kept"] = _stored(report, report.capacity)
    if report.dropped:
        rows["dropped"] = f"{human_count(report.dropped, 'episode')} of a failing environment"
    for name, value in rows.items():
        table.add_row(name, value)
    return table
