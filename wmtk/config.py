"""Base class of settings: frozen pydantic models with suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wmtk.errors import ConfigError

Width = Annotated[int, Field(ge=1, le=2**16)]  # of a layer
Depth = Annotated[int, Field(ge=1, le=64)]  # in layers
MAX_VALUE = 100  # characters of an invalid value in an error


class Config(BaseModel):
    """Base class of all settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> Self:
        """Validate plain data; raises ConfigError."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(*_explain(cls, error)) from error

    def override(self, overrides: Mapping[str, Any]) -> Self:
        """Replace settings by dotted name, such as {"rssm.deter": 200}."""
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
        """The settings that differ, by dotted name: (value in self, value in other)."""
        own, others = dict(_dotted(self.model_dump())), dict(_dotted(other.model_dump()))
        names = dict.fromkeys([*own, *others])
        return {n: (own.get(n), others.get(n)) for n in names if own.get(n) != others.get(n)}

    def changes_from(self, base: Self) -> dict[str, Any]:
        """The overrides by which these settings differ from `base`; a schedule is one override."""
        changes: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value, before = getattr(self, name), getattr(base, name)
            if value == before:
                continue
            if isinstance(field.annotation, type) and issubclass(field.annotation, Config):
                changes |= {f"{name}.{key}": x for key, x in value.changes_from(before).items()}
            else:
                changes[name] = value.model_dump() if isinstance(value, Config) else value
        return changes


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean …?` with the names of `known` that are similar to `name`, or an empty text."""
    names = list(known)
    ends: dict[str, list[str]] = {}  # dotted names by their last part
    for candidate in names:
        ends.setdefault(candidate.rpartition(".")[2], []).append(candidate)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    for end in difflib.get_close_matches(name.rpartition(".")[2], ends, n=3, cutoff=0.7):
        close += ends[end]
    *rest, last = [f"'{match}'" for match in dict.fromkeys(close)][:3] or [""]
    if not last:
        return ""
    return f"Did you mean {', '.join(rest)}{' or ' if rest else ''}{last}?"


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All settings with their dotted names."""
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
        lines.append(f"  {where} = {repr(problem['input'])[:MAX_VALUE]}: {problem['msg']}")
    return f"Invalid settings of {cls.__name__}:\n" + "\n".join(lines), (
        "Correct them in the file or in the overrides."
    )
