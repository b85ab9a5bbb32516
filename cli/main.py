"""The `wmtk` command: the table of subcommands, the global options, and how errors are shown.

A subcommand's module is imported when the subcommand is invoked or completed, not before, so that
`wmtk --help` answers at once. To add one, add a row to COMMANDS.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

import wmtk
from wmtk.cli.common import stdout
from wmtk.errors import UsageError, WmtkError


class Lazy(NamedTuple):
    """Where a subcommand is: a function becomes a command, a `typer.Typer` a group of commands."""

    module: str
    attribute: str
    help: str


COMMANDS: dict[str, Lazy] = {
    "collect": Lazy("wmtk.cli.collect", "collect", "Play a task and keep the episodes."),
    "data": Lazy(
        "wmtk.cli.data.dataset_commands",
        "app",
        "Look at datasets, mend them, make new ones of them.",
    ),
    "train-model": Lazy("wmtk.cli.train_model", "train_model", "Train a world model on datasets."),
    "train-policy": Lazy(
        "wmtk.cli.train_policy", "train_policy", "Train an actor inside of a world model."
    ),
    "online": Lazy("wmtk.cli.online", "online", "Play a task and learn it at the same time."),
    "runs": Lazy("wmtk.cli.runs", "runs", "List the runs under a folder."),
    "convert": Lazy(
        "wmtk.cli.convert_run", "convert_run", "Convert run directories of earlier versions."
    ),
    "eval": Lazy("wmtk.cli.eval", "evaluate", "Play episodes with a policy and score it."),
    "viz": Lazy("wmtk.cli.viz.viz_app", "app", "See whether a world model is right."),
    "scores": Lazy("wmtk.cli.scores", "scores", "Aggregate Atari scores, beside published ones."),
    "doctor": Lazy("wmtk.cli.doctor", "doctor", "Show versions, devices and what is missing."),
}


class LazyGroup(TyperGroup):
    """Shows COMMANDS in the help by placeholders; loads the real command once it is named."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = load(name)
        return name, command, rest

    def main(self, *args: Any, **options: Any) -> Any:
        from wmtk.escaping import safe_streams

        with safe_streams():
            return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException, BrokenPipeError):
            raise  # Typer and main() know what to do with these
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(_report(error, debug=ctx.params["debug"])) from error
        finally:
            stdout.release()


def load(name: str) -> Any:
    """The click command behind a row of COMMANDS."""
    lazy = COMMANDS[name]
    target = getattr(import_module(lazy.module), lazy.attribute)
    if isinstance(target, typer.Typer):
        target.rich_markup_mode = None  # as in `app` below
        return get_group(target)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name)(target)
    return get_command(single)


def _report(error: BaseException, *, debug: bool) -> int:
    """Tell the user about `error`, shortly or with its traceback; the exit code."""
    from wmtk.cli.common.console import INTERRUPTED, print_error

    if isinstance(error, KeyboardInterrupt):
        print_error("interrupted.")
        return INTERRUPTED
    if debug:
        import traceback

        sys.stderr.writelines(traceback.format_exception(error))
    elif isinstance(error, WmtkError):
        print_error(error.message, _with_options(error.hint))
    elif isinstance(error, MemoryError):
        print_error(
            f"There is not enough memory: {error}".removesuffix(": ") + ".",
            "Choose smaller sizes, such as --set data.batch_size=16 or fewer --windows.",
        )
    elif isinstance(error, OSError) and error.filename is not None:
        print_error(
            f"{error.filename}: {error.strerror}.",
            "Check the path, its permissions and the disk. `wmtk --debug …` shows where it was.",
        )
    else:
        print_error(
            f"{type(error).__name__}: {error}",
            "This was not foreseen. `wmtk --debug …` shows where it happened; "
            "please report it with that output.",
        )
    return 2 if isinstance(error, UsageError) else 1


# Arguments that errors of the library name in their hints.
ARGUMENTS = re.compile(
    r"(?<![\w.-])(?P<name>append|obs_keys|task|workers)=(?P<value>True|\d+|'[^']*')"
)
SETTINGS = re.compile(r"(?<!--set )\b(?P<setting>data\.[a-z_]+=)")


def _with_options(hint: str) -> str:
    """A hint with options of the command line: `append=True` becomes `--append`."""

    def option(match: re.Match[str]) -> str:
        name, value = "--" + match["name"].replace("_", "-"), match["value"].strip("'")
        if value == "True":
            return name
        return f"{name}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"

    return SETTINGS.sub(r"--set \g<setting>", ARGUMENTS.sub(option, hint))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wmtk {wmtk.__version__}")
        raise typer.Exit


# Plain help texts: rich panels would double the time to the first line, and take the brackets of
# 'wmtk[atari]' for markup.
app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="WMTK_DEBUG", help="Show the traceback behind an error."),
    ] = False,
) -> None:
    """World Model ToolKit: collect data for world models and look at it."""


def _placeholder() -> None:
    raise AssertionError("LazyGroup resolves every row of COMMANDS to the real command")


for _name, _lazy in COMMANDS.items():
    app.command(_name, help=_lazy.help)(_placeholder)


def main() -> None:
    """The entry point of the `wmtk` script."""
    from wmtk.escaping import make_streams_safe

    stdout.divert_descriptor()
    results = sys.stdout
    try:
        try:
            get_command(app).main(prog_name="wmtk")
        finally:
            results.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. Python flushes stdout once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), results.fileno())
        sys.exit(1)
    finally:
        sys.stdout = sys.stderr  # what runs at exit has no results
        make_streams_safe()


if __name__ == "__main__":
    main()
