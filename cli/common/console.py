"""Output of the commands: two consoles, progress, JSON or tables, questions, numbers as text.

Results go to stdout (`out`), everything else to stderr (`err`).
"""

from __future__ import annotations

import dataclasses
import json as jsonlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from wmtk.errors import UsageError
from wmtk.escaping import UNSAFE, escaped, indented, one_line

if TYPE_CHECKING:
    from rich.progress import Task

T = TypeVar("T")


class SafeConsole(Console):
    """Escapes everything that it prints; a string is text, never markup or an emoji code."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    @property
    def file(self) -> IO[str]:
        """The stream that rich's redirection wraps."""
        file = self._file or (sys.stderr if self.stderr else sys.stdout)
        while hasattr(file, "rich_proxied_file"):
            file = file.rich_proxied_file
        return file

    @file.setter
    def file(self, file: IO[str]) -> None:
        self._file = file

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(escaped(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        if isinstance(renderable, Text) and UNSAFE.search(renderable.plain):
            renderable = self._escaped(renderable)  # before it is laid out
        for segment in super().render(renderable, options):
            if segment.control or not UNSAFE.search(segment.text):
                yield segment
            else:
                yield Segment(escaped(segment.text), segment.style)

    def _escaped(self, text: Text) -> Text:
        parts = ((escaped(part.text), part.style or "") for part in text.render(self))
        return Text.assemble(
            *parts,
            justify=text.justify,
            overflow=text.overflow,
            no_wrap=text.no_wrap,
            end=text.end,
        )


out = SafeConsole()
err = SafeConsole(stderr=True)

INTERRUPTED = 130  # exit code that a shell reports for a command ended by Ctrl-C
PLAIN_INTERVAL = 5.0  # seconds between progress lines without a terminal


def print_error(message: str, hint: str = "") -> None:
    """Print an error and its hint to stderr, unwrapped so that paths in it can be copied."""
    err.print(Text.assemble(("error: ", "bold red"), indented(message)), soft_wrap=True)
    if hint:
        err.print(hint, soft_wrap=True)


def note(text: str) -> None:
    """Print a message to stderr."""
    err.print(indented(text), soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning to stderr."""
    err.print(f"warning: {indented(text)}", style="yellow", soft_wrap=True)


def note_new_folders(out: Path) -> None:
    """Print the topmost new folder above `out`, so that a mistyped path is noticed."""
    missing = [folder for folder in out.absolute().parents if not folder.exists()]
    if missing:
        note(f"New folder: {one_line(str(missing[-1]))}")


def emit(data: T, *, json: bool, render: Callable[[T], RenderableType]) -> None:
    """Print a result: `data` as JSON, or rendered; a `str` is printed unwrapped, to be copied."""
    if json:
        text = jsonlib.dumps(to_plain(data), indent=2, allow_nan=False)
        # json.dumps escapes all control characters except DEL.
        typer.echo(text.replace("\x7f", "\\u007f"), file=out.file)
    else:
        rendered = render(data)
        out.print(rendered, soft_wrap=isinstance(rendered, str))


def emit_text(data: Any, text: str, *, json: bool) -> None:
    """Print a result that is a sentence or two, or its `data` as JSON."""
    emit(data, json=json, render=lambda _: text)


def to_plain(value: Any) -> Any:
    """`value` as JSON types: dataclasses become objects, NaN and infinities null.

    Fields that a dataclass leaves out of its `repr` are left out.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.repr]
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # a numpy array or scalar, without importing numpy
        return to_plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def confirm(question: str, *, yes: bool) -> None:
    """Return if the user agrees, by `--yes` or in the terminal; otherwise the command ends."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to answer on.", "Pass --yes to confirm.")
    typer.confirm(one_line(question), abort=True, err=True)


def short_path(path: Path) -> str:
    """A path relative to the current folder, if it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def human_bytes(size: float) -> str:
    """A size with three digits, in powers of 1000: 12.3 MB."""
    if size < 1000:
        return f"{size:.0f} B"
    unit = ""
    units = iter(("kB", "MB", "GB", "TB", "PB"))
    while size >= 999.5 and (larger := next(units, "")):
        size, unit = size / 1000, larger
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:.{digits}f} {unit}"


def human_count(number: float, noun: str = "") -> str:
    """A number with separators and its noun, in the plural unless it is one: 1,234 episodes."""
    text = f"{number:,.0f}"
    if not noun:
        return text
    return f"{text} {noun}" if number == 1 else f"{text} {noun}s"


def human_time(seconds: float) -> str:
    """A duration as m:ss or h:mm:ss."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class Progress:
    """Progress of a long command: a bar on a terminal, a line every few seconds elsewhere.

    `noun` is the unit, in the singular ("step"), or "byte" for sizes.
    """

    def __init__(
        self, description: str, total: float | None, noun: str, started_at: int = 0
    ) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._noun = noun
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[status]}", markup=False),
            console=err,
            disable=not err.is_terminal,  # a disabled bar still counts, for the plain lines
            # Results are printed to stdout during the bar; other output is redirected.
            redirect_stdout=out.file is not sys.stdout,
        )
        self._started_at = started_at
        self._id = self._bar.add_task(
            escaped(description), total=total, completed=started_at, status=""
        )
        self._printed_at = time.monotonic()

    @property
    def _task(self) -> Task:
        return self._bar.tasks[0]

    def advance(self, amount: float = 1) -> None:
        """Add `amount` to the count."""
        self._bar.advance(self._id, amount)
        self._show()

    def update(
        self,
        *,
        completed: float | None = None,
        total: float | None = None,
        description: str | None = None,
    ) -> None:
        """Set the given values."""
        text = None if description is None else escaped(description)
        self._bar.update(self._id, completed=completed, total=total, description=text)
        self._show()

    def _show(self) -> None:
        if not self._bar.disable:
            self._bar.update(self._id, status=self._status())
        elif time.monotonic() - self._printed_at >= PLAIN_INTERVAL:
            self._printed_at = time.monotonic()
            err.print(f"{self._task.description}: {self._status()}", soft_wrap=True)

    def _status(self) -> str:
        task = self._task
        parts = [self._amount(task.completed)]
        if task.total:
            done = min(100.0, 100 * task.completed / task.total)
            parts = [f"{self._amount(task.completed)} of {self._amount(task.total)} ({done:.0f}%)"]
        if task.speed:
            parts.append(self._rate(task.speed))
        if task.time_remaining:
            parts.append(f"{human_time(task.time_remaining)} left")
        return ", ".join(parts)

    def _amount(self, number: float) -> str:
        if self._noun == "byte":
            return human_bytes(number)
        return human_count(number, self._noun)

    def _rate(self, per_second: float) -> str:
        if self._noun == "byte" or per_second >= 10:
            return f"{self._amount(per_second)}/s"
        return f"{per_second:.1f} {self._noun}s/s"

    def _finish(self) -> None:
        elapsed = self._task.elapsed or 0.0
        done = self._task.completed - self._started_at
        rate = f", {self._rate(done / elapsed)}" if elapsed >= 1 else ""
        status = f"{self._amount(done)} in {human_time(elapsed)}{rate}"
        self._bar.update(self._id, status=status)
        if self._bar.disable:
            err.print(f"{self._task.description}: {status}", soft_wrap=True)


@contextmanager
def progress(
    description: str, total: float | None = None, *, noun: str = "step", started_at: int = 0
) -> Iterator[Progress]:
    """Show progress on stderr while the block runs; a `total` of None is unknown.

    `started_at` is the count reached in an earlier process.
    """
    bar = Progress(description, total, noun, started_at)
    with bar._bar:
        yield bar
        bar._finish()
