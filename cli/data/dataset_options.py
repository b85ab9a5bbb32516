"""What the commands of `wmtk data` share: their options, opening, progress, questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from wmtk.cli.common.console import confirm, emit, out, progress
from wmtk.cli.common.env_options import say_new_folders

if TYPE_CHECKING:
    from wmtk.datasets import Dataset

T = TypeVar("T")

DatasetPath = Annotated[Path, typer.Argument(metavar="DATASET", help="The dataset's folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The folder of the new dataset.")]
TagOption = Annotated[str | None, typer.Option("--tag", "-t", help="Read this tagged version.")]


@contextmanager
def counted(description: str, noun: str) -> Iterator[Callable[[int, int], None]]:
    """Progress as the functions of wmtk.datasets report it: done, of how many."""
    with progress(description, noun=noun) as bar:
        yield lambda done, total: bar.update(completed=done, total=total)


def open_dataset(path: Path, tag: str | None = None) -> Dataset:
    from wmtk.datasets import Dataset

    return Dataset.open(path, tag=tag)


def may_replace(path: Path, *, yes: bool) -> bool:
    """Whether `path` is taken and the user agrees that what is there is replaced.

    Folders above it that will be made are named.
    """
    say_new_folders(path)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return False
    confirm(f"{path} exists already. Replace it?", yes=yes)
    return True


def say(data: T, text: str, *, json: bool) -> None:
    """Print a result that is a sentence or two: unwrapped, so that paths in it can be copied."""
    if json:
        emit(data, json=True, render=lambda _: text)
    else:
        out.print(text, soft_wrap=True)
