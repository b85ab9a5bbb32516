"""`wmtk viz serve`: the live page."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common import process
from wmtk.cli.common.console import human_count, note, note_new_folders, warn
from wmtk.cli.common.options import Checkpoint, Device, TrustEnv

if TYPE_CHECKING:
    from wmtk.viz.live.server import Address

HOST, PORT = "127.0.0.1", 8765

Port = Annotated[
    int,
    typer.Option(min=0, max=65535, metavar="N", help="Port of the live page; 0 takes a free one."),
]
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
        typer.Option(metavar="DATA", help="Dataset for episodes of the real environment."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = HOST,
    port: Port = PORT,
    no_open: NoOpen = False,
    checkpoint: Checkpoint = "latest",
    device: Device = "auto",
    trust_env: TrustEnv = None,
) -> None:
    """Open a page in the browser to explore datasets and models, and to act inside of models.

    The page serves the runs and datasets that are named here, to everyone who has the printed
    address. Other machines reach it through the printed ssh command or with --host. Ctrl-C stops
    it.

    \b
    Examples:
      wmtk viz serve runs/catch catch.zarr
      wmtk viz serve runs/catch runs/catch-policy catch.zarr --record mine.zarr
      wmtk viz serve catch.zarr --port 0 --no-open
    """
    process.reserve_stdout()
    from wmtk.viz import serve

    serve(
        *(paths or []),
        record=record,
        host=host,
        port=port,
        open_browser=None if no_open else typer.launch,
        checkpoint=checkpoint,
        device=device,
        trust_env=trust_env or [],
        on_ready=_announce,
    )


def collect_human(
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
    """Run `wmtk collect --human`: a live page on which a person plays the task."""
    from wmtk.cli.common.env_options import echo
    from wmtk.collecting import dataset_for
    from wmtk.envs import resolve
    from wmtk.viz.live_page import require_packages, serve_task

    require_packages()
    resolved = resolve(task, **settings)
    seed = secrets.randbelow(2**31) if seed is None else seed
    echo(resolved, seed)
    note_new_folders(out)
    with dataset_for(
        resolved, out, store_info=store_info, capacity=capacity, append=append
    ) as dataset:
        before = len(dataset)
        serve_task(
            resolved,
            dataset,
            seed,
            port=port,
            open_browser=None if no_open else typer.launch,
            on_ready=_announce,
        )
        note(f"{out} has {human_count(len(dataset) - before, 'new episode')}.")


def _announce(address: Address) -> None:
    note(f"The live page is at {address.url}")
    note(f"From another machine: {address.tunnel}")
    if address.exposed:
        warn(
            f"{address.host} can be reached from other machines. Everyone who has the address can "
            "use the page; it is not encrypted."
        )
    note("Ctrl-C stops it.")
