"""Options that several commands have in common, with the panels of their help."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wmtk.errors import UsageError

# Panels of the help, in the order in which a command's signature names them.
TASK, DATA, TRAINING, POLICY, OUTPUT = "Task", "Data", "Training", "Policy", "Output"
COMPUTE = "Compute"

MAX_SEED = 2**63 - 1  # torch accepts no larger seed
PRESET = "tiny"  # wmtk.training.presets.DEFAULT_PRESET, without importing torch
PRESETS = "tiny, atari, dmc_vision, humanoid or montezuma"


def _fits(seed: int | None) -> int | None:
    if seed is not None and seed > MAX_SEED:
        raise typer.BadParameter(f"{seed} is larger than {MAX_SEED}.")
    return seed


def seed_option(help: str, panel: str = COMPUTE, default: str | bool = True) -> Any:
    """An option `--seed N` with 0 ≤ N < 2**63; `default` describes a default of None."""
    return typer.Option(
        "--seed",
        metavar="N",
        min=0,
        callback=_fits,
        help=help,
        show_default=default,
        rich_help_panel=panel,
    )


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Values of a repeated option `KEY=VALUE`, as text."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            message = f"{option} {text} lacks a value."
            raise UsageError(message, f"Write it as {option} name=value.")
        pairs[name] = value
    return pairs


def parse_settings(texts: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Values of a repeated option `KEY=VALUE`, parsed as JSON where possible, or else as text."""
    settings: dict[str, Any] = {}
    for name, value in parse_pairs(texts, option).items():
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


# --- the task -----------------------------------------------------------------------------------

TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="atari_<game>, dmc_<domain>_<task>, a Gymnasium id, or package.module:Id.",
        show_default=False,
    ),
]
EnvSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--env-set",
        metavar="KEY=VALUE",
        help="Option of the environment, such as sticky=0. Repeatable.",
        rich_help_panel=TASK,
    ),
]
ObsKeys = Annotated[
    str | None,
    typer.Option(
        metavar="KEYS",
        help="Observation keys to use, such as image,state; or to leave out: -mission.",
        show_default="all",
        rich_help_panel=TASK,
    ),
]
TrustEnv = Annotated[
    list[str] | None,
    typer.Option(
        help="Allow a run or dataset to name this environment, whose code then runs.",
        metavar="MODULE:ID",
        show_default=False,
        rich_help_panel=TASK,
    ),
]
Envs = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Parallel environments.", rich_help_panel=COMPUTE),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Processes that the environments are spread over; 0 is the main process.",
        show_default="cores",
        rich_help_panel=COMPUTE,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        min=0.1,
        metavar="SECONDS",
        help="Time without a step after which a worker is restarted.",
        rich_help_panel=COMPUTE,
    ),
]
Fps = Annotated[
    float,
    typer.Option(min=0.1, max=240, help="Steps per second of video.", rich_help_panel=OUTPUT),
]

# --- training -----------------------------------------------------------------------------------

RunOut = Annotated[
    Path,
    typer.Option(
        metavar="RUN",
        help="The run directory to write.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=f"{PRESETS}.", show_default=PRESET, rich_help_panel=TRAINING),
]
Updates = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Gradient updates in total.",
        show_default="10000",
        rich_help_panel=TRAINING,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Setting, such as data.batch_size=16. Repeatable.",
        rich_help_panel=TRAINING,
    ),
]
Ablate = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Ablation of the paper, such as no-kl-balancing. Repeatable.",
        rich_help_panel=TRAINING,
    ),
]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.", rich_help_panel=COMPUTE)
]
Checkpoint = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Checkpoint to load: latest, best, or an update's number.",
        rich_help_panel=POLICY,
    ),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue the run if it exists.", rich_help_panel=OUTPUT),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)
]
Explore = Literal["disagreement"]
