"""`wmtk viz serve`: the live page."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import process
from wmtk.cli.common.console import err, human_count
from wmtk.cli.common.options import TrustEnv
from wmtk.cli.viz.window_options import Checkpoint, Device, training_of
from wmtk.errors import MissingDependencyError, UsageError

if TYPE_CHECKING:
    from wmtk.agent.stepper import ModelStepper
    from wmtk.viz.live.catalog import Catalog, DataEntry, RecordingTarget, RunEntry
    from wmtk.viz.live.server import Address

HOST, PORT = "127.0.0.1", 8765

Host = Annotated[str, typer.Option(help="The address to listen at.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes one that is free.")]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")]


def serve(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN...] [DATA...]",
            help="Run directories and datasets, in any order.",
            show_default=False,
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Save what is played in the real environment to this dataset.", metavar="DATA"
        ),
    ] = None,
    host: Host = HOST,
    port: Port = PORT,
    no_open: NoOpen = False,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    trust_env: TrustEnv = None,
) -> None:
    """Open a page in the browser to prediction at datasets and models, and to play inside of them.

    Whoever has the address that is printed can see what is named here, and nothing else. The page
    is for this machine only, unless --host says otherwise; from another one, use the line for ssh.
    Ctrl-C ends it.

    \b
    Examples:
      wmtk viz serve runs/catch catch.zarr
      wmtk viz serve runs/catch runs/catch-policy catch.zarr --record mine.zarr
      wmtk viz serve catch.zarr --port 0 --no-open
    """
    require_packages()
    runs = [path for path in paths or [] if os.path.lexists(path / "run.json")]
    others = [path for path in paths or [] if path not in runs]
    if not runs and not others:
        raise UsageError("There is nothing to show.", "Name runs or datasets, or both.")
    from wmtk.viz.live.catalog import Catalog

    process.reserve_stdout()
    trusted = trust_env or []
    opened = [_run(path, checkpoint, device, trusted) for path in runs]
    data = [_data(path) for path in others]
    target = None if record is None else _target(record, opened, trusted)
    with target.dataset if target else nullcontext():
        open_page(Catalog(opened, data, target), host, port, no_open=no_open)


def play_yourself(
    task: str,
    out: Path,
    store_info: Sequence[str],
    settings: Mapping[str, str],
    seed: int | None,
    capacity: int | None,
    *,
    append: bool,
    port: int,
    no_open: bool,
) -> None:
    """`wmtk collect --human`: the page for playing the real environment, which saves episodes."""
    from wmtk.cli.common.console import note_new_folders
    from wmtk.cli.common.env_options import echo
    from wmtk.collecting import dataset_for
    from wmtk.envs import resolve

    require_packages()
    from wmtk.viz.live.catalog import Catalog, RecordingTarget

    resolved = resolve(task, **settings)
    seed = secrets.randbelow(2**31) if seed is None else seed
    echo(resolved, seed)
    note_new_folders(out)
    with dataset_for(
        resolved, out, store_info=store_info, capacity=capacity, append=append
    ) as dataset:
        before = len(dataset)
        catalog = Catalog([], [], RecordingTarget(resolved, dataset, seed))
        open_page(catalog, HOST, port, no_open=no_open, human=True)
        _say(f"{out} has {human_count(len(dataset) - before, 'new episode')}.")


def require_packages() -> None:
    """Say how to get what the page needs, if it is not there."""
    from importlib.util import find_spec

    for package in ("fastapi", "uvicorn", "websockets"):
        if find_spec(package) is None:
            raise MissingDependencyError(package, "serve", "The live page")


def open_page(
    catalog: Catalog, host: str, port: int, *, no_open: bool, human: bool = False
) -> None:
    """Serve until Ctrl-C."""
    from wmtk.viz.live.server import Server

    def ready(address: Address) -> None:
        _say(f"The live page is at {address.url}")
        _say(f"From another machine: {address.tunnel}")
        if address.exposed:
            err.print(
                f"warning: {host} can be reached from other machines. Whoever learns the address "
                "can prediction and play; it is not encrypted.",
                style="yellow",
                soft_wrap=True,
            )
        _say("Ctrl-C ends it.")
        if not no_open:
            typer.launch(address.url)

    Server(catalog, host, port, human=human).run(ready)


def _say(text: str) -> None:
    err.print(text, soft_wrap=True)


def _run(path: Path, checkpoint: str, device: str, trust_env: Sequence[str] = ()) -> RunEntry:
    """A run, whose model is opened when somebody plays in it."""
    from wmtk.collecting import task_of
    from wmtk.runs.model_spaces import spaces_of
    from wmtk.runs.run_directory import Run
    from wmtk.viz.live.catalog import RunEntry
    from wmtk.viz.windows import held_out

    run = Run(path)

    def open_model() -> ModelStepper:
        from wmtk.agent.device import choose_device
        from wmtk.agent.load import load
        from wmtk.agent.stepper import single_threaded

        return single_threaded(load(path, checkpoint, choose_device(device)))

    return RunEntry(
        name=path.resolve().name,
        kind=run.kind,
        update=run.step,
        about=run.about,
        schema=spaces_of(run)[0],
        config=run.config(),
        open=open_model,
        task=lambda: task_of(run.about["env"], trust_env=trust_env),
        held_out=lambda dataset: held_out(dataset, training_of(run), path),
    )


def _data(path: Path) -> DataEntry:
    from wmtk.datasets import Dataset
    from wmtk.viz.live.catalog import DataEntry

    return DataEntry(path.resolve().name, Dataset.open(path))


def _target(path: Path, runs: Sequence[RunEntry], trust_env: list[str]) -> RecordingTarget:
    """Where to record to: the task is that of the dataset, if there is one, or of the first run."""
    from wmtk.collecting import dataset_for, task_of
    from wmtk.datasets import Dataset
    from wmtk.viz.live.catalog import RecordingTarget

    if path.exists():
        task = task_of(Dataset.open(path).env, trust_env=trust_env)
    elif runs:
        task = runs[0].task()
    else:
        raise UsageError(
            f"Which task is to be recorded to {path}?",
            "Name a run, or use wmtk collect TASK --human --out …",
        )
    return RecordingTarget(task, dataset_for(task, path, append=True), secrets.randbelow(2**31))
