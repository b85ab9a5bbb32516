"""`wmtk.viz.serve`: the live page in a browser."""

from __future__ import annotations

import os
import secrets
import sys
import webbrowser
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wmtk.collecting import dataset_for, task_of
from wmtk.datasets import Dataset
from wmtk.errors import MissingDependencyError, UsageError
from wmtk.viz.windows import held_out, training_of

if TYPE_CHECKING:
    from wmtk.agent.stepper import ModelStepper
    from wmtk.envs import ResolvedTask
    from wmtk.viz.live.catalog import Catalog, DataEntry, RecordingTarget, RunEntry
    from wmtk.viz.live.server import Address

HOST, PORT = "127.0.0.1", 8765


def serve(
    *paths: str | Path,
    record: str | Path | None = None,
    host: str = HOST,
    port: int = PORT,
    open_browser: Callable[[str], object] | None = webbrowser.open,
    checkpoint: str = "latest",
    device: str = "auto",
    trust_env: str | Collection[str] = (),
    on_ready: Callable[[Address], None] = lambda address: _announce(address),
) -> None:
    """Serve a page on which datasets and models are explored, until Ctrl-C.

    The address contains a random token, without which requests are refused.

    Args:
        paths: Run directories and datasets, in any order.
        record: Dataset for episodes in the real environment; None saves none.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        open_browser: Called with the address of the page; None opens no browser.
        checkpoint: `"latest"`, `"best"` or the number of an update.
        device: `"auto"`, `"cpu"`, `"cuda"`, `"cuda:N"` or `"mps"`.
        trust_env: `module:Id` of an environment that runs and datasets may import.
        on_ready: Called with the address once the page is served; by default it is
            written to stderr.

    Example:
        >>> wmtk.viz.serve(run, data, port=0, open_browser=None)  # doctest: +SKIP
        http://127.0.0.1:35061/Yg4k5mFLXb0/
    """
    require_packages()
    from wmtk.viz.live.catalog import Catalog

    all_paths = [Path(path) for path in paths]
    runs = [path for path in all_paths if os.path.lexists(path / "run.json")]
    datasets = [path for path in all_paths if path not in runs]
    if not all_paths:
        raise UsageError("No run or dataset given.", "Pass run directories, datasets, or both.")
    trusted = [trust_env] if isinstance(trust_env, str) else list(trust_env)
    entries = [run_entry(path, checkpoint, device, trusted) for path in runs]
    data = [data_entry(path) for path in datasets]
    target = None if record is None else _target(Path(record), entries, trusted)
    with target.dataset if target else nullcontext():
        run_server(Catalog(entries, data, target), host, port, open_browser, on_ready)


def serve_task(
    task: ResolvedTask,
    dataset: Dataset,
    seed: int,
    *,
    host: str = HOST,
    port: int = PORT,
    open_browser: Callable[[str], object] | None = webbrowser.open,
    on_ready: Callable[[Address], None] = lambda address: _announce(address),
) -> None:
    """Serve a page on which a person plays a task, until Ctrl-C; episodes go to `dataset`."""
    require_packages()
    from wmtk.viz.live.catalog import Catalog, RecordingTarget

    catalog = Catalog([], [], RecordingTarget(task, dataset, seed))
    run_server(catalog, host, port, open_browser, on_ready, human=True)


def _announce(address: Address) -> None:
    sys.stderr.write(f"{address.url}\n")


def require_packages() -> None:
    """Raise MissingDependencyError if a package of the extra `serve` is not installed."""
    for package in ("fastapi", "uvicorn", "websockets"):
        if find_spec(package) is None:
            raise MissingDependencyError(package, "serve", "The live page")


def run_server(
    catalog: Catalog,
    host: str,
    port: int,
    open_browser: Callable[[str], object] | None,
    on_ready: Callable[[Address], None],
    *,
    human: bool = False,
) -> None:
    """Serve a catalog until Ctrl-C."""
    from wmtk.viz.live.server import Server

    def ready(address: Address) -> None:
        on_ready(address)
        if open_browser is not None:
            open_browser(address.url)

    Server(catalog, host, port, human=human).run(ready)


def run_entry(path: Path, checkpoint: str, device: str, trust_env: Sequence[str] = ()) -> RunEntry:
    """A run of the catalog; its model is loaded at first use."""
    from wmtk.runs.model_spaces import spaces_of
    from wmtk.runs.run_directory import Run
    from wmtk.viz.live.catalog import RunEntry

    run = Run(path)

    def open_stepper() -> ModelStepper:
        from wmtk.agent.load import load
        from wmtk.agent.stepper import single_threaded

        return single_threaded(load(path, checkpoint, device))

    return RunEntry(
        name=path.resolve().name,
        kind=run.kind,
        update=run.step,
        about=run.about,
        schema=spaces_of(run)[0],
        config=run.config(),
        open=open_stepper,
        task=lambda: task_of(run.about["env"], trust_env=trust_env),
        held_out=lambda dataset: held_out(dataset, training_of(run), path),
    )


def data_entry(path: Path) -> DataEntry:
    """A dataset of the catalog."""
    from wmtk.viz.live.catalog import DataEntry

    return DataEntry(path.resolve().name, Dataset.open(path))


def _target(path: Path, runs: Sequence[RunEntry], trust_env: Sequence[str]) -> RecordingTarget:
    """The dataset to record to, and its task: for a new dataset, that of the first run."""
    from wmtk.viz.live.catalog import RecordingTarget

    if path.exists():
        task = task_of(Dataset.open(path).env, trust_env=trust_env)
    elif runs:
        task = runs[0].task()
    else:
        raise UsageError(
            f"The task of the new dataset {path} is unknown.",
            "Pass a run of the task, or use wmtk collect TASK --human --out …",
        )
    return RecordingTarget(task, dataset_for(task, path, append=True), secrets.randbelow(2**31))
