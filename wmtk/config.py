"""Settings: frozen, typed, and with an answer to every misspelled name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wmtk.errors import ConfigError

Width = Annotated[int, Field(ge=1, le=2**16)]  # of a layer
Depth = Annotated[int, Field(ge=1, le=64)]  # in layers
MAX_SHOWN = 100  # characters of a wrong value in an error


class Config(BaseModel):
    """Base of all settings; they stand beside the class that they configure."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """The settings from plain data, with errors that a user can act on."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(*_explain(cls, error)) from error

    def override(self, overrides: Mapping[str, Any]) -> Self:
        """These settings with some of them replaced, by dotted name: {"rssm.deter": 200}."""
        values = self.model_dump()
        names = [name for name, _ in _dotted(values)]
        for name, value in overrides.items():
            *parents, last = name.split(".")
            inner = values
            for parent in parents:
                inner = inner.get(parent, {})
                if not isinstance(inner, dict):
                    inner = {}
            if last not in inner:
                raise _unknown(name, names)
            inner[last] = value
        return type(self).build(values)

    def diff(self, other: Self) -> dict[str, tuple[Any, Any]]:
        """The settings that are not the same in `other`, by dotted name: (here, there)."""
        here, there = dict(_dotted(self.model_dump())), dict(_dotted(other.model_dump()))
        names = dict.fromkeys([*here, *there])
        return {n: (here.get(n), there.get(n)) for n in names if here.get(n) != there.get(n)}

    def changes_from(self, base: Self) -> dict[str, Any]:
        """What turns `base` into these settings, as `changed` takes it; schedules as a whole."""
        changes: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            mine, theirs = getattr(self, name), getattr(base, name)
            if mine == theirs:
                continue
            if isinstance(field.annotation, type) and issubclass(field.annotation, Config):
                changes |= {f"{name}.{key}": x for key, x in mine.changes_from(theirs).items()}
            else:
                changes[name] = mine.model_dump() if isinstance(mine, Config) else mine
        return changes


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence with the names of `known` that `name` may stand for, or nothing."""
    names = list(known)
    ends: dict[str, list[str]] = {}  # somebody may have left out what comes before the last dot
    for candidate in names:
        ends.setdefault(candidate.rpartition(".")[2], []).append(candidate)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    for end in difflib.get_close_matches(name.rpartition(".")[2], ends, n=3, cutoff=0.7):
        close += ends[end]
    *rest, last = [f"'{found}'" for found in dict.fromkeys(close)][:3] or [""]
    if not last:
        return ""
    return f"Did you mean {', '.join(rest)}{' or ' if rest else ''}{last}?"


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every single setting with its dotted name."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _unknown(name: str, known: list[str]) -> ConfigError:
    parent = name.rpartition(".")[0]
    start = f"{parent}." if any(other.startswith(f"{parent}.") for other in known) else ""
    rest = [other.removeprefix(start) for other in known if other.startswith(start)]
    heads = dict.fromkeys(f"{start}{end.partition('.')[0]}{'.*' * ('.' in end)}" for end in rest)
    hint = f"{nearest(name, known)} There are: {', '.join(heads)}."
    return ConfigError(f"There is no setting {name!r}.", hint.strip())


def _explain(cls: type[Config], error: ValidationError) -> tuple[str, str]:
    lines = []
    for problem in error.errors():
        where = ".".join(map(str, problem["loc"]))
        lines.append(f"  {where} = {repr(problem['input'])[:MAX_SHOWN]}: {problem['msg']}")
    return f"These settings of {cls.__name__} make no sense:\n" + "\n".join(lines), (
        "Correct them in the file or in --set name=value."
    )
