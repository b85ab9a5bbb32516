"""Options of tasks: frozen dataclasses, with suggestions for misspelled names.

`obs_keys` selects keys of the observation, or leaves out those with a leading '-'.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from wmtk.documents import check_depth
from wmtk.errors import TaskError
from wmtk.reprs import brief

T = TypeVar("T")
MAX_SIZE = 2048  # pixels: rendering takes memory, and options may come from a file
MAX_REPEAT = 10_000  # simulator steps per agent step
VERSION = re.compile(r"(NoFrameskip|Deterministic)?-v\d+$")


def _option(default: Any, wanted: str, valid: Callable[[Any], bool]) -> Any:
    """A dataclass field with a validator and a description of valid values."""
    return field(default=default, metadata={"wanted": wanted, "valid": valid})


def _whole(default: int | None, low: int, high: int | None = None) -> Any:
    def valid(value: Any) -> bool:
        if value is None:
            return default is None
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and low <= value and (high is None or value <= high)

    limits = f"of at least {low}" if high is None else f"from {low} to {high}"
    none = " or null" if default is None else ""
    return _option(default, f"a whole number {limits}{none}", valid)


def _probability(default: float) -> Any:
    def valid(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1

    return _option(default, "a number from 0 to 1", valid)


def _flag(default: bool) -> Any:
    return _option(default, "true or false", lambda value: isinstance(value, bool))


def _names() -> Any:
    def valid(value: Any) -> bool:
        return value is None or isinstance(value, str)

    return _option(None, "names, separated by commas", valid)


def _choice(default: str, *others: str) -> Any:
    names = (default, *others)
    return _option(default, f"one of {', '.join(names)}", lambda value: value in names)


@dataclass(frozen=True)
class AtariOptions:
    """Options of Atari. The defaults are those of the paper; `time_limit` counts frames."""

    size: int = _whole(64, 8, 210)
    rgb: bool = _flag(False)
    full_action_space: bool = _flag(True)
    sticky: float = _probability(0.25)
    repeat: int = _whole(4, 1, MAX_REPEAT)
    noop_max: int = _whole(30, 0, MAX_REPEAT)
    time_limit: int = _whole(108_000, 1)
    obs_keys: str | None = _names()


@dataclass(frozen=True)
class DmcOptions:
    """Options of dm_control. `time_limit` counts simulator steps; `camera` None is the default.

    `shadow_size` is the resolution of shadows, which take half of the rendering time on a CPU.
    """

    obs: Literal["pixels", "state", "both"] = _choice("pixels", "state", "both")
    size: int = _whole(64, 8, MAX_SIZE)
    repeat: int = _whole(2, 1, MAX_REPEAT)
    camera: int | None = _whole(None, 0)
    time_limit: int = _whole(1000, 1)
    shadow_size: int | None = _whole(None, 0, 4 * MAX_SIZE)
    obs_keys: str | None = _names()


@dataclass(frozen=True)
class GymnasiumOptions:
    """Options of other environments. `size` 0 keeps the image size.

    `time_limit` None is the registered limit. `kwargs` are passed to the environment.
    """

    size: int = _whole(64, 0, MAX_SIZE)
    repeat: int = _whole(1, 1, MAX_REPEAT)
    time_limit: int | None = _whole(None, 1)
    render: bool = _flag(False)
    obs_keys: str | None = _names()
    kwargs: dict[str, Any] = field(
        default_factory=dict,
        metadata={
            "wanted": 'a JSON object such as {"slippery": true}',
            "valid": lambda value: isinstance(value, dict),
        },
    )


ENV_OPTIONS = frozenset(
    field.name
    for cls in (AtariOptions, DmcOptions, GymnasiumOptions)
    for field in dataclasses.fields(cls)
)


def read_options(cls: type[T], task: str, options: Mapping[str, Any]) -> T:
    """Validate options and return an instance of the dataclass `cls`; texts are parsed as JSON."""
    assert dataclasses.is_dataclass(cls), cls
    fields = {field.name: field.metadata for field in dataclasses.fields(cls)}
    values = {}
    for name, value in options.items():
        if name == "seed":
            raise TaskError("A seed is not an option of a task.", "Seed with env.reset(seed=…).")
        if name not in fields:
            known = f"Options of {task}: {', '.join(fields)}."
            suggestion = did_you_mean(name, fields)
            if "kwargs" in fields:
                known += f' Pass arguments of the environment as kwargs={{"{name}": …}}.'
            raise TaskError(f"Unknown option '{name}' of {task}.", f"{suggestion} {known}".strip())
        values[name] = _parsed(value)
        if not fields[name]["valid"](values[name]):
            message = f"Option {name}={brief(value)} of {task} is invalid."
            raise TaskError(message, f"It must be {fields[name]['wanted']}.")
    instance: T = cls(**values)
    return instance


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        plain = value.lower() if value.lower() in {"true", "false", "null"} else value
        return check_depth(json.loads(plain))
    except (ValueError, RecursionError):  # not JSON, too many digits, or too deeply nested
        return value


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`Did you mean …?` with the names of `known` that are similar to `name`, or an empty text."""
    # Compared without case, separators and versions, so that `Cartpole-v2` finds `CartPole-v1`, and
    # without the prefix too, so that `PongNoFrameskip-v4` finds `atari_pong`.
    plain: dict[str, str] = {}
    for candidate in sorted(known, reverse=True):  # the newest version first
        plain.setdefault(_plain(candidate), candidate)
        plain.setdefault(_plain(candidate.partition("_")[2]), candidate)
    plain.pop("", None)
    close = difflib.get_close_matches(_plain(name), plain, n=6, cutoff=0.6)
    names = list(dict.fromkeys(plain[match] for match in close))[:3]
    if not names:
        return ""
    *rest, last = (f"'{name}'" for name in names)
    return f"Did you mean {', '.join(rest)}{' or ' if rest else ''}{last}?"


def _plain(name: str) -> str:
    name = VERSION.sub("", name)
    return "".join(letter for letter in name.lower() if letter.isalnum())
