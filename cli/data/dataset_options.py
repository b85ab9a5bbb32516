"""Options and questions that the commands of `wmtk data` have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmtk.cli.common.console import confirm, note_new_folders, progress
from wmtk.cli.common.options import OUTPUT

if TYPE_CHECKING:
    from wmtk.datasets import Dataset

DatasetPath = Annotated[
    Path, typer.Argument(metavar="DATASET", help="Path of the dataset.", show_default=False)
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.", rich_help_panel=OUTPUT)
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", metavar="DATASET", help="The dataset to write.", rich_help_panel=OUTPUT
    ),
]
TagOption = Annotated[
    str | None, typer.Option("--tag", "-t", metavar="NAME", help="Read this tagged version.")
]


@contextmanager
def counted(description: str, noun: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar as the `progress` callback (done, total) of wmtk.datasets."""
    with progress(description, noun=noun) as bar:
        yield lambda done, total: bar.update(completed=done, total=total)


def open_dataset(path: Path, tag: str | None = None) -> Dataset:
    from wmtk.datasets import Dataset

    return Dataset.open(path, tag=tag)


def may_replace(path: Path, *, yes: bool) -> bool:
    """Whether `path` exists and its replacement is confirmed; prints folders to be created."""
    note_new_folders(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return False
    confirm(f"{path} exists already. Replace it?", yes=yes)
    return True
