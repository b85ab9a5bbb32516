"""The `wmtk` command: the table of subcommands, the global options, and the printing of errors.

A subcommand's module is imported when the subcommand is invoked or completed, not before, so that
`wmtk --help` is fast. To add a subcommand, add a row to COMMANDS.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from importlib import import_module
from inspect import cleandoc
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

import wmtk
from wmtk.cli.common import process
from wmtk.errors import UsageError, WmtkError


class Lazy(NamedTuple):
    """The location of a subcommand: a function, or a `typer.Typer` for a group of commands."""

    panel: str  # of `wmtk --help`
    module: str
    attribute: str
    help: str


COMMANDS: dict[str, Lazy] = {
    "collect": Lazy(
        "Data", "wmtk.cli.collect", "collect", "Collect episodes of a task into a dataset."
    ),
    "data": Lazy(
        "Data",
        "wmtk.cli.data.dataset_commands",
        "app",
        "Inspect, repair, transform and convert datasets.",
    ),
    "train-model": Lazy(
        "Training", "wmtk.cli.train_model", "train_model", "Train a world model on datasets."
    ),
    "train-policy": Lazy(
        "Training",
        "wmtk.cli.train_policy",
        "train_policy",
        "Train an actor and a critic inside a world model.",
    ),
    "online": Lazy(
        "Training",
        "wmtk.cli.online",
        "online",
        "Train an agent online: collect, train the model, train the policy, repeat.",
    ),
    "runs": Lazy("Training", "wmtk.cli.runs", "runs", "List the runs under a folder."),
    "convert": Lazy(
        "Training",
        "wmtk.cli.convert_run",
        "convert_run",
        "Convert run directories of earlier versions.",
    ),
    "eval": Lazy("Inspection", "wmtk.cli.eval", "evaluate", "Measure the return of a policy."),
    "viz": Lazy(
        "Inspection",
        "wmtk.cli.viz.viz_app",
        "app",
        "Evaluate and visualize world models.",
    ),
    "scores": Lazy(
        "Inspection",
        "wmtk.cli.scores",
        "scores",
        "Aggregate Atari scores and compare them with published results.",
    ),
    "doctor": Lazy(
        "Inspection", "wmtk.cli.doctor", "doctor", "Show versions, devices and missing packages."
    ),
}
# Options of earlier versions, and those that replace them.
RENAMED = {
    ("train-model", "--steps"): "--updates",
    ("train-policy", "--steps"): "--updates",
    ("online", "--task-set"): "--env-set",
    ("online", "--updates"): "--steps",
    ("collect", "--set"): "--env-set",
    ("eval", "--set"): "--env-set",
}

TRAIN_PACKAGES = ("torch", "safetensors", "tensorboard", "yaml")
# An argument `name=value` or a setting `section.name=value` in the hint of an error.
HINTED = re.compile(
    r"(?<![\w.=/-])(?<!--set )(?P<name>[a-z_]+(?:\.(?!zarr=)[a-z_]+)*)"
    r"=(?P<value>\[[^\]]*\]|'[^']*'|[\w+-]+(?:\.\w+)*)"
)
FUNCTIONS = re.compile(r"\bwmtk\.(train_model|train_policy|online|collect)\b")
SECTIONS = ("model", "optimizer", "behavior", "data", "online", "logging")
SHORTHANDS = {"behavior.explore=disagreement": "--explore disagreement"}


class LazyGroup(TyperGroup):
    """Lists COMMANDS in the help without importing them; loads a command when it is named."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = load(name)
        return name, command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from typer.rich_utils import rich_format_help

        rich_format_help(obj=self, ctx=ctx, markup_mode="rich")

    def main(self, *args: Any, **options: Any) -> Any:
        from wmtk.escaping import safe_streams

        with safe_streams():
            return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.TyperException as error:
            _name_replacement(error)
            raise
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise  # handled by Typer and main()
        except (Exception, KeyboardInterrupt) as error:
            code = _report(error, ctx.invoked_subcommand, debug=ctx.params["debug"])
            raise typer.Exit(code) from error
        finally:
            process.release_stdout()


def load(name: str) -> Any:
    """The click command behind a row of COMMANDS."""
    lazy = COMMANDS[name]
    target = getattr(import_module(lazy.module), lazy.attribute)
    if isinstance(target, typer.Typer):
        group = get_group(target)
        for command in group.commands.values():
            command.help = _reflowed(command.help or "")
        return group
    single = typer.Typer(add_completion=False)
    single.command(name)(target)
    command = get_command(single)
    command.help = _reflowed(command.help or "")
    return command


def _reflowed(text: str) -> str:
    """A docstring with one line per paragraph; a paragraph after a line "\\b" keeps its lines."""
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(
        each.removeprefix("\b\n") if each.startswith("\b") else each.replace("\n", " ")
        for each in paragraphs
    )


def _name_replacement(error: Any) -> None:
    """Add the new name of an option to the error about an option of an earlier version."""
    new = RENAMED.get((getattr(error.ctx, "info_name", ""), getattr(error, "option_name", "")))
    if new:
        error.possibilities = None
        error.message = f"No such option: {error.option_name}. Use {new} instead."


def _report(error: BaseException, command: str, *, debug: bool) -> int:
    """Print `error`, as a message or with its traceback; returns the exit code."""
    from wmtk.cli.common.console import INTERRUPTED, print_error

    if isinstance(error, KeyboardInterrupt):
        print_error("interrupted.")
        return INTERRUPTED
    if debug:
        import traceback

        sys.stderr.writelines(traceback.format_exception(error))
    elif isinstance(error, WmtkError):
        print_error(error.message, _with_options(error.hint, command))
    elif isinstance(error, ModuleNotFoundError) and error.name in TRAIN_PACKAGES:
        print_error(f"{error.name} is not installed.", "Install it: pip install 'wmtk[train]'")
    elif isinstance(error, MemoryError):
        print_error(
            f"Out of memory: {error}".removesuffix(": ") + ".",
            "Reduce sizes, for example with --set data.batch_size=16 or fewer --windows.",
        )
    elif isinstance(error, OSError) and error.filename is not None:
        print_error(
            f"{error.filename}: {error.strerror}.",
            "Check the path, its permissions and the disk. `wmtk --debug …` shows the traceback.",
        )
    else:
        print_error(
            f"{type(error).__name__}: {error}",
            "Unexpected error; please report it with the output of `wmtk --debug …`.",
        )
    return 2 if isinstance(error, UsageError) else 1


def _with_options(hint: str, command: str) -> str:
    """A hint for the command line instead of Python.

    Arguments become options that `command` has: `append=True` → `--append`, `steps=100` →
    `--steps 100`. Settings become `--set`: `data.length=20` → `--set data.length=20`. Functions
    become commands: `wmtk.train_model` → `wmtk train-model`.
    """
    root = load(command)
    commands = [root, *getattr(root, "commands", {}).values()]
    options = {name for each in commands for param in each.params for name in param.opts}

    def option(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"].strip("'")
        if name.partition(".")[0] in SECTIONS and "." in name:
            setting = f"--set {match[0]}" if "--set" in options else match[0]
            return SHORTHANDS.get(match[0], setting)
        flag = f"--{name.replace('_', '-')}"
        if flag not in options:
            return match[0]
        if value == "True":
            return flag
        return f"{flag}{'=' if value.startswith('-') else ' '}{shlex.quote(value)}"

    hint = FUNCTIONS.sub(lambda match: f"wmtk {match[1].replace('_', '-')}", hint)
    return HINTED.sub(option, hint)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"wmtk {wmtk.__version__}")
        raise typer.Exit


# Errors stay plain: a panel would wrap the paths in them, which then cannot be copied.
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
    """World Model ToolKit: collect data, train world models and policies, inspect them.

    \b
    Example:
      wmtk collect wmtk/Catch-v0 --out catch.zarr --episodes 500
      wmtk train-model catch.zarr --out runs/model
      wmtk train-policy runs/model --out runs/policy
      wmtk eval runs/policy
    """


def _placeholder() -> None:
    raise AssertionError("LazyGroup resolves every row of COMMANDS to the real command")


for _name, _lazy in COMMANDS.items():
    app.command(_name, help=_lazy.help, rich_help_panel=_lazy.panel)(_placeholder)


def main() -> None:
    """The entry point of the `wmtk` script."""
    from wmtk.escaping import make_streams_safe

    process.divert_stdout_descriptor()
    results = sys.stdout
    try:
        try:
            get_command(app).main(prog_name="wmtk")
        finally:
            results.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has ended. Python flushes stdout once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), results.fileno())
        sys.exit(1)
    finally:
        # Exit handlers print no results.
        sys.stdout = sys.__stdout__ = sys.stderr  # type: ignore[misc, assignment]
        make_streams_safe()
        if results.fileno() != 1:
            results.close()


if __name__ == "__main__":
    main()
