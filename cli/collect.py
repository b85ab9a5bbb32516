"""`wmtk collect`: play a task and keep the episodes as a dataset."""

from __future__ import annotations

import secrets
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wmtk.cli.common import console, stdout
from wmtk.cli.common.console import human_count
from wmtk.cli.common.env_options import (
    ObsKeys,
    echo,
    interrupt,
    say_limits,
    say_new_folders,
    task_options,
    warn,
)
from wmtk.cli.viz.serve_command import PORT, NoOpen, Port, play_yourself
from wmtk.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from wmtk.collecting import CollectReport, RolloutProgress


def collect(
    task: Annotated[
        str, typer.Argument(help="atari_<game>, dmc_<domain>_<task>, a gymnasium id, module:Id.")
    ],
    out: Annotated[Path, typer.Option(help="The dataset to write.", show_default=False)],
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Agent steps to collect; the last episodes are finished."),
    ] = None,
    episodes: Annotated[int | None, typer.Option(min=1, help="Episodes to collect.")] = None,
    policy: Annotated[
        str,
        typer.Option(
            help="random, a run directory of wmtk train-policy, or package.module:function from "
            "observation to action."
        ),
    ] = "random",
    explore: Annotated[
        Literal["disagreement"] | None,
        typer.Option(help="Play with the explorer of a run trained with this option."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(min=0, max=1, help="Share of random actions mixed into the policy's.")
    ] = 0.0,
    envs: Annotated[int, typer.Option(min=1, help="Environments that play side by side.")] = 4,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes they are spread over; 0 is this one.", show_default="cores"
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=console.MAX_SEED,
            help="The same seed gives the same dataset.",
            show_default="random",
        ),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Go on with an existing dataset.")
    ] = False,
    capacity: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Steps to keep; the oldest episodes go beyond that. A new dataset remembers it.",
        ),
    ] = None,
    store_info: Annotated[
        str, typer.Option(help="Keys of the environment's info to keep, separated by commas.")
    ] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the task, such as rgb=true.")
    ] = None,
    obs_keys: ObsKeys = None,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds without a step after which a worker is replaced."),
    ] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    human: Annotated[
        bool, typer.Option("--human", help="Play yourself, in the browser, until Ctrl-C.")
    ] = False,
    port: Port = PORT,
    no_open: NoOpen = False,
) -> None:
    """Play a task and keep the episodes as a dataset.

    Examples:

    wmtk collect atari_pong --out data/pong.zarr --steps 20000 --seed 0

    wmtk collect wmtk/Catch-v0 --out mine.zarr --human

    Ctrl-C commits the episodes that are whole and exits with code 130; the same command with
    --append goes on.
    """
    stdout.reserve()
    from wmtk.cli.common.policy_names import find_policy_maker
    from wmtk.collecting import EpsilonGreedy, dataset_for, schema_of, seed_entropy
    from wmtk.collecting import collect_episodes as run
    from wmtk.envs import resolve

    if human and steps is None and episodes is None:
        play_yourself(
            task,
            out,
            store_info,
            task_options(settings, obs_keys),
            seed,
            capacity,
            append=append,
            port=port,
            no_open=no_open,
        )
        return
    if human or (steps is None) == (episodes is None):
        raise UsageError(
            "It is not clear how much to collect.",
            "Pass exactly one of --steps, --episodes and --human.",
        )
    seed = secrets.randbelow(2**31) if seed is None else seed
    resolved = resolve(task, **task_options(settings, obs_keys))
    echo(resolved, seed)
    # A wrong name must not leave an empty dataset behind.
    make_policy = find_policy_maker(
        policy, lambda: schema_of(resolved), explore=explore is not None
    )
    keys = [key.strip() for key in store_info.split(",") if key.strip()]
    say_new_folders(out)
    signal.signal(signal.SIGTERM, interrupt)
    with dataset_for(resolved, out, store_info=keys, capacity=capacity, append=append) as dataset:
        say_limits(resolved, "--set", steps, envs)
        dice = seed_entropy(dataset, seed)
        chosen = make_policy(dataset.schema, dice)
        if epsilon:
            chosen = EpsilonGreedy(chosen, epsilon, dataset.schema.action, dice)
        noun = "step" if steps else "episode"
        with console.progress(f"Collecting {task}", steps or episodes, noun=noun) as bar:

            def show(progress: RolloutProgress) -> None:
                count = progress.steps_taken if steps else progress.episodes
                mean = "" if not progress.episodes else f", mean return {progress.mean_return:.1f}"
                bar.update(completed=count, description=f"Collecting {task}{mean}")

            report = run(
                resolved,
                dataset,
                chosen,
                seed=seed,
                steps=steps,
                episodes=episodes,
                envs=envs,
                workers=workers,
                timeout=timeout,
                on_progress=show,
                on_message=warn,
            )
    report = replace(report, path=out)  # as it was given
    console.emit(report, json=json, render=_render)
    if report.interrupted:
        wanted, had = (steps, report.steps) if steps else (episodes, report.episodes)
        rest = max((wanted or 0) - had, 1)
        raise typer.Exit(_say_how_to_go_on(f"--{noun}s {rest} --append"))


def _say_how_to_go_on(options: str) -> int:
    # Of an option that is given twice the last counts, so that they can simply be added.
    console.err.print(
        "Interrupted; what was whole is kept. To go on, run the same command again with this "
        f"added at its end:\n  {options}",
        soft_wrap=True,
    )
    return console.INTERRUPTED


def _kept(report: CollectReport, capacity: int) -> str:
    """What the dataset holds, and why it is not the capacity."""
    held = f"{human_count(report.kept_steps)} steps, {human_count(report.kept_episodes, 'episode')}"
    if report.kept_steps > capacity:
        return f"{held}: the newest episode stays whole, though the capacity is {capacity:,}"
    return f"{held}: the capacity is {capacity:,}, and the oldest episodes are evicted whole"


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
        rows["kept"] = _kept(report, report.capacity)
    if report.dropped:
        rows["dropped"] = f"{human_count(report.dropped, 'episode')} of a failing environment"
    for name, value in rows.items():
        table.add_row(name, value)
    return table
